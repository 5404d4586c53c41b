package decide

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// replayOf makes a role's observations of every interval, oldest first, the last one now.
func replayOf(passes int, change func(i int, o *observe.RoleObservation)) (found []observe.RoleObservation) {
	for i := range passes {
		o := observe.RoleObservation{Sequence: uint64(i + 1), Interval: interval, Span: interval, Replayed: true, Age: time.Duration(passes-1-i) * interval,
			Coverage: observe.Coverage{ReadyReplicas: 4, Targets: 4, Answered: 4, Rated: 4},
			Running:  observe.Known(5), Waiting: observe.Known(0), Prompt: observe.Known(0), Generation: observe.Known(150),
			TTFT: latencyOf(ms(100)), ITL: latencyOf(ms(10))}
		change(i, &o)
		found = append(found, o)
	}
	return found
}

func TestReplayRebuildsWhatTheUninterruptedPlannerWouldHave(t *testing.T) {
	s := predicted(4, 150)
	s.State.Predictors, s.State.Roles[0].History = nil, nil
	s.Scaler.Spec.Behavior.ScaleDown.StepPolicy = &workerv1.StepPolicy{Type: workerv1.StepPods} // nothing moves
	replay := replayOf(60, func(i int, o *observe.RoleObservation) { o.Generation = observe.Known(150 + float64(i)) })

	live := *s
	for i, o := range replay[:59] {
		o.Replayed, o.Age = false, 0
		live.Now = noon.Add(-time.Duration(59-i) * interval)
		live.Observations = map[string]observe.RoleObservation{"server": o}
		d := Plan(live.Input)
		require.Nil(t, d.Commit, "%d %v", i, d.Trace)
		live.State = d.State
	}
	rebuilt := Rebuild(s.Input, map[string][]observe.RoleObservation{"server": replay[:59]})
	require.Equal(t, live.State.Predictors, rebuilt.Predictors)
	require.Equal(t, live.State.Roles[0].History, rebuilt.Roles[0].History)

	last := replay[59]
	last.Replayed = false
	live.Now, s.State = noon, rebuilt
	s.Observations["server"], live.Observations["server"] = last, last
	require.Equal(t, Plan(live.Input).State.role("server").Raw, Plan(s.Input).State.role("server").Raw)
}

func TestReplayCountsTheLatestObservationOnce(t *testing.T) {
	s := tokens(observe.Server, 4, 150)
	s.State.Predictors = nil
	replay := replayOf(20, func(int, *observe.RoleObservation) {})
	s.State = Rebuild(s.Input, map[string][]observe.RoleObservation{"server": replay})
	require.Len(t, s.State.predictor("server").History, 20)
	last := replay[19]
	last.Replayed = false
	s.Observations["server"] = last
	require.Len(t, Plan(s.Input).State.predictor("server").History, 20)
}

func TestReplayTouchesWindowsAlone(t *testing.T) {
	s := tokens(observe.Server, 4, 150)
	s.State.Roles[0].Current = 3
	s.State.Conditions = full().Conditions
	s.State.ObservedGeneration = 1
	before := clone(s.Input)
	rebuilt := Rebuild(s.Input, map[string][]observe.RoleObservation{"server": replayOf(3, func(int, *observe.RoleObservation) {})})
	require.Equal(t, before, s.Input)
	require.Equal(t, int32(3), rebuilt.Roles[0].Current, "the baseline of a decision that is not known yet")
	require.EqualValues(t, 1, rebuilt.ObservedGeneration, "an edit is noticed by the first pass")
	require.Equal(t, s.State.Conditions, rebuilt.Conditions)
}

func TestReplayKeepsWhatTheStatusRemembers(t *testing.T) {
	s := with(server(4)).queue("server", 10).remembering("server", 4)
	rebuilt := Rebuild(s.Input, map[string][]observe.RoleObservation{"server": replayOf(3, func(_ int, o *observe.RoleObservation) { o.Running = observe.Known(10) })})
	highest, _ := rebuilt.Roles[0].History.Highest(noon, 5*time.Minute)
	require.Equal(t, int32(4), highest, "a replay never lets a count shrink earlier")
}

func TestReplayMakesTheSameHistoryOfARoleThatTheStatusDoesNotKnow(t *testing.T) {
	s := tokens(observe.Server, 4, 150)
	s.State.Roles[0].History = nil
	replay := map[string][]observe.RoleObservation{"server": replayOf(200, func(int, *observe.RoleObservation) {})}
	known := Rebuild(s.Input, replay).Roles[0].History
	require.Len(t, known, 121, "half an hour of it")
	s.State.Roles = nil
	require.Equal(t, known, Rebuild(s.Input, replay).Roles[0].History)
}

func TestReplayOfAnotherTargetIsIgnored(t *testing.T) {
	s := tokens(observe.Server, 4, 150)
	replay := map[string][]observe.RoleObservation{"server": replayOf(3, func(int, *observe.RoleObservation) {})}
	s.Target.UID = "target-2"
	require.Equal(t, s.State, Rebuild(s.Input, replay))
	s.Target = nil
	require.Equal(t, s.State, Rebuild(s.Input, replay))
}
