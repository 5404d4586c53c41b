package e2e

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/dev/harness"
	"gpustack.ai/model-deployment-scaler/dev/runner"
	"gpustack.ai/model-deployment-scaler/internal/sim"
)

// Not parallel: other tests stop deciders.
func TestARolloutOfDecidersHandsOverInOrder(t *testing.T) {
	s := newStage(t)
	s.deploy("chat", "vLLM", 1, quiet)
	s.scale(policy{name: "chat", target: "chat", mode: workerv1.ModeActive, min: 1, max: 5, step: 1})
	term := s.bound("chat", "chat")
	record := s.record("chat")
	s.Fleet.SetTraffic(s.namespace, "chat", sim.Constant(12, 200, 120)) // 24 requests at a time: 3 replicas
	s.eventually("the ramp has begun", func() bool { return s.replicas("chat") >= 2 })

	before := s.lease()
	vacancy := s.vacancy()
	leader, others := s.deciders()
	for _, old := range append(others, leader) {
		require.NoError(t, s.Runner.Replace(t.Context(), old.Name), "the new copy is ready without leading")
	}
	s.eventually("a new copy leads", func() bool { return *s.lease().Spec.HolderIdentity != "" })
	gap := vacancy()
	t.Logf("nobody led for %s", gap.Round(time.Millisecond))
	require.Less(t, gap, time.Duration(*before.Spec.LeaseDurationSeconds)*time.Second, "the Lease is given back, not waited out")
	require.Equal(t, *before.Spec.LeaseTransitions+1, *s.lease().Spec.LeaseTransitions, "leadership moves once")
	s.unharmed("decider")
	s.eventually("the ramp goes on to its end", func() bool { return s.replicas("chat") == 3 })
	require.Equal(t, term, s.bound("chat", "chat"), "the binding outlives the rollout")
	record.orderly(1, 5, 1)
}

// unharmed requires that no program of a component was started again, and waits until all are ready.
func (s *stage) unharmed(component string) {
	s.t.Helper()
	s.eventually("every "+component+" is ready", func() bool {
		return !slices.ContainsFunc(s.Pods(component), func(p runner.Pod) bool { return !p.Ready })
	})
	for _, p := range s.Pods(component) {
		require.Zero(s.t, p.Restarts, p.Name)
	}
}

func (s *stage) lease() *coordinationv1.Lease {
	s.t.Helper()
	lease, err := s.Kube.CoordinationV1().Leases(harness.Namespace).Get(s.t.Context(), "decider", metav1.GetOptions{})
	require.NoError(s.t, err)
	return lease
}

// vacancy watches the Lease until the returned function is called, which says for how long nobody held it.
func (s *stage) vacancy() func() time.Duration {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	w, err := s.Kube.CoordinationV1().Leases(harness.Namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=decider"})
	require.NoError(s.t, err)
	vacant := make(chan time.Duration)
	go func() {
		var total time.Duration
		var since time.Time
		for event := range w.ResultChan() {
			lease, ok := event.Object.(*coordinationv1.Lease)
			held := ok && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
			switch {
			case held && !since.IsZero():
				total, since = total+time.Since(since), time.Time{}
			case !held && since.IsZero():
				since = time.Now()
			}
		}
		if !since.IsZero() { // that somebody holds it was not told yet
			total += time.Since(since)
		}
		vacant <- total
	}()
	return func() time.Duration {
		cancel()
		return <-vacant
	}
}
