package e2e

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/dev/runner"
)

// Not parallel: other tests kill samplers and leaders.
func TestARolloutOfSamplersLeavesNoRoleWithoutReadings(t *testing.T) {
	const models, interval = 4, 5 * time.Second
	s := newStage(t)
	s.observe(models)
	seen := s.listen()
	began := time.Now()
	old := s.Pods("sampler")
	for _, p := range old {
		require.NoError(t, s.Runner.Replace(t.Context(), p.Name), "the new one is ready before the old one goes")
	}
	rolled := time.Now()
	s.eventually("every role was observed by a new sampler, twice", func() bool {
		return seen.roles(rolled, 2) == models
	})

	for scaler, observations := range seen.since(began) {
		before := began
		for _, o := range observations {
			require.Contains(t, []string{"Fresh", "Idle"}, o.GetPlan().GetSignalState(), scaler)
			made := o.GetObservation().GetEndTime().AsTime()
			require.Less(t, made.Sub(before), 2*interval+time.Second, "%s lost more than one interval", scaler)
			before = made
		}
		last := observations[len(observations)-1].GetShard()
		require.False(t, slices.ContainsFunc(old, func(p runner.Pod) bool { return p.Name == last }), "%s is observed by %s", scaler, last)
		t.Logf("%s: %d observations in %s", scaler, len(observations), time.Since(began).Round(time.Second))
	}
}

// heard are the observations that the leader told of, each once, by scaler.
type heard struct {
	mu       sync.Mutex
	byScaler map[string][]*observationv1.ScalerObservation
}

// listen to the leader until the test ends.
func (s *stage) listen() *heard {
	s.t.Helper()
	token := s.viewer("listener", serviceName)
	var stream observationv1.ObservationService_WatchClient
	s.eventually("the right is in force", func() bool {
		leader, _ := s.deciders()
		watch, err := observationv1.NewObservationServiceClient(s.call(leader)).Watch(s.with(token), &observationv1.ObservationServiceWatchRequest{
			Selector: &observationv1.ObservationSelector{Namespace: s.namespace},
		})
		require.NoError(s.t, err)
		_, err = watch.Recv()
		stream = watch
		return err == nil
	})
	h := &heard{byScaler: make(map[string][]*observationv1.ScalerObservation)}
	go func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				return // the test has ended, or sees nothing any more
			}
			h.add(m.GetObservation())
		}
	}()
	return h
}

func (h *heard) add(o *observationv1.ScalerObservation) {
	if o == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.byScaler[o.GetScaler()]
	if n := len(known); n > 0 && o.GetObservation().GetEndTime().AsTime().Equal(known[n-1].GetObservation().GetEndTime().AsTime()) {
		known[n-1] = o // another pass on it, which can find it stale
		return
	}
	h.byScaler[o.GetScaler()] = append(known, o)
}

// since gives what was planned since a time.
func (h *heard) since(t time.Time) map[string][]*observationv1.ScalerObservation {
	h.mu.Lock()
	defer h.mu.Unlock()
	later := make(map[string][]*observationv1.ScalerObservation)
	for scaler, all := range h.byScaler {
		later[scaler] = slices.DeleteFunc(slices.Clone(all), func(o *observationv1.ScalerObservation) bool { return o.GetPlanTime().AsTime().Before(t) })
	}
	return later
}

// roles counts those that were observed so often since a time.
func (h *heard) roles(since time.Time, times int) (n int) {
	for _, observations := range h.since(since) {
		if len(observations) >= times {
			n++
		}
	}
	return n
}
