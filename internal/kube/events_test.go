package kube

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (w *world) events() []eventsv1.Event {
	w.t.Helper()
	list, err := w.client.Core.EventsV1().Events(w.namespace).List(w.t.Context(), metav1.ListOptions{})
	require.NoError(w.t, err)
	return list.Items
}

func TestACommitIsToldOnTheScalerAndOnTheTargetEachWithItsOwnWhy(t *testing.T) {
	w := newWorld(t)
	d, s := w.deploy("md", nil), w.scaler("s", "md")
	e, err := NewEvents(t.Context(), w.client)
	require.NoError(t, err)
	first := Event{Reason: EventScaledUp, Action: ActionCommit, Note: "decode 1 to 2: the queue is long"}
	second := Event{Reason: EventScaledUp, Action: ActionCommit, Note: "decode 2 to 4: it is longer"}
	e.Tell(w.name("s"), s.UID, &d, first)
	later := d
	later.ResourceVersion += "0"
	e.Tell(w.name("s"), s.UID, &later, second)

	require.Eventually(t, func() bool { return len(w.events()) == 4 }, patience, tick)
	seen := map[string]bool{}
	for _, event := range w.events() {
		require.Equal(t, EventScaledUp, event.Reason)
		require.Equal(t, FieldManager, event.ReportingController)
		require.NotNil(t, event.Related)
		seen[event.Regarding.Kind+": "+event.Note] = true
	}
	for _, kind := range []string{"ModelDeployment: ", "ModelDeploymentScaler: "} {
		require.True(t, seen[kind+first.Note] && seen[kind+second.Note], "%v", seen)
	}
}

func TestAStormOfEventsIsCutAndForgottenWithTheScaler(t *testing.T) {
	w := newWorld(t)
	s := w.scaler("s", "md")
	e, err := NewEvents(t.Context(), w.client)
	require.NoError(t, err)
	for range 10 * eventBurst {
		e.Tell(w.name("s"), s.UID, nil, Event{Warning: true, Reason: "R", Action: ActionPlan, Note: strings.Repeat("ä", maxNote)})
	}
	e.Tell(w.name("s"), "of the next scaler of that name", nil, Event{Reason: "R", Action: ActionPlan, Note: "cut too"})
	require.False(t, e.limiter(w.name("s")).Allow())
	require.Eventually(t, func() bool { return len(w.events()) == 1 }, patience, tick)
	require.LessOrEqual(t, len(w.events()[0].Note), maxNote)
	require.True(t, e.limiter(w.name("another")).Allow())
	e.Forget(w.name("s"))
	e.Forget(w.name("another"))
	require.Empty(t, e.limiters)
}
