package decider

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/decide"
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// replayed is a minute of observations, as a sampler replays them.
func (l *handLeader) replayed() { l.replays(time.Minute) }

func (l *handLeader) replays(span time.Duration) {
	l.w.t.Helper()
	past := l.complete(8)
	var history []observe.RoleObservation
	for age := span; age > 0; age -= 5 * time.Second {
		past.Sequence++
		past.Age = age
		history = append(history, past)
	}
	l.remember("shard", replayOf(l.w.t, history...), time.Now())
}

func TestHistoryIsThereForEveryScalerOfATarget(t *testing.T) {
	w := newWorld(t)
	w.scale("other", workerv1.ModeShadow)
	w.scale("s", workerv1.ModeActive)
	l := w.handLeader("s")
	l.replayed()
	l.see(8)
	other := l.memories.of(w.named("other"), w.scaler("other")) // its pass has begun elsewhere, and has not come to the history
	require.NoError(t, l.turn())
	require.NotEmpty(t, l.readings.past)
	_, err := l.pass(t.Context(), w.named("other"))
	require.NoError(t, err)
	require.Len(t, other.state.State().Roles[0].History, 13)
	require.Empty(t, l.readings.past)
}

func TestHistoryIsThereAgainForMemoryThatBeginsAnew(t *testing.T) {
	w := newWorld(t)
	w.scale("s", workerv1.ModeShadow)
	outdated := w.scaler("s")
	l := w.handLeader("s")
	l.replayed()
	l.see(8)
	m := l.memories.of(l.name, outdated)
	v, err := l.gather(t.Context(), l.name, false)
	require.NoError(t, err)
	v.scaler = outdated
	left := outdated.Status.DeepCopy()
	left.ObservedGeneration = 1
	_, err = l.writer.WriteStatus(t.Context(), outdated, *left)
	require.NoError(t, err)
	require.ErrorIs(t, l.report(t.Context(), v, decide.Plan(v.in), decide.Outcome{}, nil), errStatusMoved)
	require.NotEmpty(t, l.readings.past)
	require.NoError(t, l.turn())
	require.Len(t, m.state.State().Roles[0].History, 13)
	require.Empty(t, l.readings.past)
}

// takingOver is a leader that has heard no sampler yet, whose only scaler is due.
func takingOver(t *testing.T) *handLeader {
	t.Helper()
	w := newWorld(t)
	w.scale("s", workerv1.ModeShadow)
	l := w.handLeader("s")
	t.Cleanup(l.schedule.queue.ShutDown)
	l.gathered = make(chan struct{})
	l.schedule.force(l.name)
	return l
}

// works takes a scaler from the queue, as a worker does; false when none is there.
func (l *handLeader) works() bool {
	return l.schedule.queue.Len() > 0 && l.next(l.w.t.Context())
}

func (l *handLeader) passes() int {
	return int(testutil.ToFloat64(l.metrics.passes.WithLabelValues(resultOK)))
}

func TestANewLeaderPlansWhatItHasHeardAllOfWhileSamplersStillReplay(t *testing.T) {
	l := takingOver(t)
	require.True(t, l.works())
	require.Zero(t, l.passes(), "nothing was heard")
	l.replayed()
	l.see(8)
	require.False(t, l.works(), "a part was, of which another sampler may have the rest")
	l.replays(replaySpan)
	require.True(t, l.works())
	require.Equal(t, 1, l.passes())
	require.Empty(t, l.readings.past)
	l.schedule.force(l.name)
	require.True(t, l.works())
	require.Equal(t, 2, l.passes(), "what was planned goes on being planned")
}

func TestAScalerWithoutAPastIsPlannedWhenAllSamplersAreHeard(t *testing.T) {
	l := takingOver(t)
	require.True(t, l.works())
	require.Zero(t, l.passes())
	close(l.gathered)
	l.requeueGathered(t.Context())
	require.True(t, l.works())
	require.Equal(t, 1, l.passes())
}
