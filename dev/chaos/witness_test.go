package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/internal/decide"
)

// told is what a decider tells of a role whose observation was made a second before it was planned.
func told(of subject, planned time.Time, running float64, change func(*observationv1.ScalerObservation)) *observationv1.ScalerObservation {
	o := &observationv1.ScalerObservation{
		Scaler: of.scaler, Role: of.role, Shard: "sampler-0", PlanTime: timestamppb.New(planned),
		Observation: &observationv1.RoleObservation{
			Key: &observationv1.RoleKey{DeploymentUid: "u"}, EndTime: timestamppb.New(planned.Add(-time.Second)),
			RunningRequests: proto.Float64(running), WaitingRequests: proto.Float64(0),
			Coverage: &observationv1.Coverage{ReadyReplicas: 2, Targets: 2, Answered: 2},
		},
		Plan: &observationv1.RolePlan{CurrentReplicas: 2, RawRecommendedReplicas: 1, SignalState: "Fresh"},
	}
	if change != nil {
		change(o)
	}
	return o
}

func TestAPlanIsWholeOnCurrentReadingsAndFullWindows(t *testing.T) {
	of := subject{probe, "server"}
	for name, tt := range map[string]struct {
		change func(*observationv1.ScalerObservation)
		whole  bool
	}{
		"current readings":        {nil, true},
		"an idle role":            {func(o *observationv1.ScalerObservation) { o.Plan.SignalState = "Idle" }, true},
		"stale readings":          {func(o *observationv1.ScalerObservation) { o.Plan.SignalState = "Stale" }, false},
		"a pass that was held":    {func(o *observationv1.ScalerObservation) { o.Hold = "it waits" }, false},
		"a probe that wants more": {func(o *observationv1.ScalerObservation) { o.Plan.RawRecommendedReplicas = 2 }, false},
		"a short history": {func(o *observationv1.ScalerObservation) {
			o.Plan.Trace = []*observationv1.PlanStep{{Stage: decide.StageDownWindow, Rule: decide.RuleHistoryShort}}
		}, false},
		"windows that are not known to be whole": {func(o *observationv1.ScalerObservation) {
			o.Plan.Trace = []*observationv1.PlanStep{{Stage: decide.StageGuards, Rule: decide.RuleYoungWindows}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.whole, whole(told(of, time.Now(), 1, tt.change))) })
	}
}

func TestWhatAnObservationAsksForIsComputedAnew(t *testing.T) {
	for name, tt := range map[string]struct {
		running float64
		change  func(*observationv1.ScalerObservation)
		asks    int32
	}{
		"one replica's worth":           {8, nil, 1},
		"a little more":                 {9, nil, 2},
		"nothing":                       {0, nil, 1},
		"within the tolerance":          {17, nil, 2},
		"a part of it":                  {1, func(o *observationv1.ScalerObservation) { o.Observation.Coverage.Answered = 1 }, 2},
		"a part that asks for more":     {90, func(o *observationv1.ScalerObservation) { o.Observation.Coverage.Answered = 1 }, 12},
		"no observation":                {0, func(o *observationv1.ScalerObservation) { o.Observation = nil }, 2},
		"an observation without queues": {0, func(o *observationv1.ScalerObservation) { o.Observation.WaitingRequests = nil }, 2},
		"an absurd number of requests":  {1e18, nil, 1<<31 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.asks, asks(told(subject{"chat", "server"}, time.Now(), tt.running, tt.change)))
		})
	}
}

func TestTheFloorOfARemovalIsWhatWasAskedForWithinItsWindow(t *testing.T) {
	tight, start := subject{"tight", "server"}, time.Now().Add(-time.Minute)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	decided := func(o *observationv1.ScalerObservation) { o.Plan.DecisionId = "l-1.2.down" }
	s := newWitness()
	s.hear("a", told(tight, at(0), 40, nil), told(tight, at(7), 24, nil))
	s.hear("b", told(tight, at(10), 16, nil), told(tight, at(10), 16, nil), told(tight, at(13), 1, decided), told(tight, at(14), 80, nil))
	count, known := s.floor("tight", "server", "l-1.2.down", at(13.5))
	require.True(t, known)
	require.Equal(t, int32(3), count, "24 requests were seen 7 s before, by another leader; 40 are too long ago, 80 came later")
	_, known = s.floor("tight", "server", "l-1.3.down", at(13.5))
	require.False(t, known, "nobody told of that decision")
	_, known = s.floor("pair", "prefill", "l-1.2.down", at(13.5))
	require.False(t, known, "it follows another role")
	require.Len(t, s.plans, 5, "what two copies tell of one pass counts once")
}

func TestFailOverEndsWhenOneOtherLeaderHasPlannedEveryRole(t *testing.T) {
	s, now := newWitness(), time.Now()
	for i, r := range subjects {
		s.hear("old", told(r, now, 1, nil))
		s.hear("short", told(r, now, 1, func(o *observationv1.ScalerObservation) { o.Hold = "x" }))
		if i > 0 {
			s.hear("new", told(r, now, 1, nil))
		}
	}
	_, over := s.ledAgain(now, "old")
	require.False(t, over)
	s.hear("new", told(subjects[0], now, 1, nil))
	at, over := s.ledAgain(now, "old")
	require.True(t, over)
	require.Equal(t, s.plans[len(s.plans)-1].heard, at)
	_, over = s.ledAgain(at.Add(1), "old")
	require.False(t, over)
}

func TestASamplerIsReplacedWhenAllItsRolesAreSeenAnew(t *testing.T) {
	s, now := newWitness(), time.Now()
	roles := []subject{{"chat", "server"}, {"tight", "server"}}
	s.hear("l", told(roles[0], now, 1, nil), told(roles[1], now, 1, nil))
	require.ElementsMatch(t, roles, s.of("sampler-0"))
	require.Empty(t, s.of("sampler-1"))
	s.hear("l", told(roles[0], now.Add(2*time.Second), 1, nil))
	_, over := s.seenAgain(now, roles)
	require.False(t, over)
	s.hear("l", told(roles[1], now.Add(2*time.Second), 1, nil))
	_, over = s.seenAgain(now, roles)
	require.True(t, over)
}

func TestTimesOverTheGoalAreCounted(t *testing.T) {
	m := &measure{what: "it is over", goal: 10 * time.Second}
	var times []time.Duration
	for i := range 100 {
		times = append(times, time.Duration(i+1)*100*time.Millisecond)
	}
	row := func() string {
		var b bytes.Buffer
		timesRow(&b, "f", m, times)
		return b.String()
	}
	require.Equal(t, "f\tit is over\t100\t5.0 s\t9.9 s\t10.0 s\t10 s\t0\n", row())
	times[3] = time.Minute
	require.Equal(t, "f\tit is over\t100\t5.1 s\t10.0 s\t60.0 s\t10 s\t1\n", row())
	times[0] = time.Minute
	require.Contains(t, row(), "2 (MISSED)")
}
