package decide

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/windows"
)

// full is a memory with something in every field.
func full() State {
	at := metav1.NewTime(noon)
	vector := workerv1.Vector{"a": 3}
	return State{
		ObservedGeneration: 4,
		Binding:            Binding{TargetUID: "target-1", TargetName: "llm", Term: 2},
		Roles: []RoleState{{
			Name: "a", Current: 3, Ready: 2, Signal: observe.Fresh, Raw: 5, Constrained: 3, Reason: ReasonPacingBounded,
			Observed: observe.RoleObservation{Running: observe.Known(8), Waiting: observe.Known(2), Prompt: observe.Known(2400.5), Generation: observe.Known(0),
				KVCacheUsage: observe.Known(0.25), TTFT: latencyOf(ms(400)), ITL: latencyOf(ms(40.125))},
			LastScaleUpTime: noon.Add(-time.Hour), PanicUntil: noon.Add(time.Minute),
			History: windows.History{{At: noon.Add(-15 * time.Second), Replicas: 3}, {At: noon, Replicas: 5}},
		}, {Name: "b", Current: 1, Signal: observe.Missing, Reason: ReasonNoReadyReplicas}},
		LastCommit:    &workerv1.CommitStatus{DecisionID: "x-1.1.up", Term: 2, Vector: vector, BaselineVector: vector, Timestamp: at, TargetGeneration: 9},
		PendingCohort: &workerv1.PendingCohort{DecisionID: "x-1.1.up", Term: 2, BaselineVector: vector, TargetVector: vector, StartedAt: at},
		Rebalance:     &workerv1.RebalanceStatus{ReceiverRole: "a", DonorRole: "b", StartedAt: &at, Reason: StepDonorRelease},
		LastScaleDown: &workerv1.ScaleDownStatus{Role: "a", PreScaleDownVector: vector, Outcome: workerv1.ScaleDownAborted, AbortedAt: &at, CooldownUntil: &at},
		Exhaustion:    &workerv1.ExhaustionStatus{Roles: []string{"a"}, Attempts: 2, BlockedUntil: at, Increment: vector},
		Predictors: []Predictor{{Name: "a", Level: 2400.000000001, Trend: -0.5, P00: 1.5, P01: 0.25, P11: 2, Samples: 12,
			History: windows.Average{{At: noon.Add(-15 * time.Second), PerSecond: 2000.125}, {At: noon, Span: 15 * time.Second, PerSecond: 2400}}}},
		Conditions: []metav1.Condition{{Type: workerv1.ConditionBound, Status: metav1.ConditionTrue, Reason: workerv1.ReasonBound, LastTransitionTime: at}},
	}
}

func TestMemorySurvivesTheStatus(t *testing.T) {
	want := full()
	data, err := json.Marshal(want.Status())
	require.NoError(t, err)
	var stored workerv1.ModelDeploymentScalerStatus
	require.NoError(t, json.Unmarshal(data, &stored))
	got := StateFromStatus(stored)
	require.True(t, equality.Semantic.DeepEqual(want.Status(), got.Status()), "%s", data)
	require.InDelta(t, want.Predictors[0].Level, got.Predictors[0].Level, 1e-9)
	require.True(t, got.Roles[0].PanicUntil.Equal(want.Roles[0].PanicUntil))
	require.Equal(t, want.Roles[0].Observed.KVCacheUsage, got.Roles[0].Observed.KVCacheUsage)
	require.False(t, got.Roles[1].Observed.Running.Valid, "missing is not zero")
	require.Equal(t, 15*time.Second, begun(got.Predictors[0].History, interval)[1].Span)
	require.Equal(t, State{}, StateFromStatus(State{}.Status()), "an empty memory is an empty status")
}

func TestStatusSharesNothingWithTheMemory(t *testing.T) {
	s := full()
	before := clone(s)
	status := s.Status()
	status.LastCommit.Vector["a"] = 99
	status.Conditions[0].Reason = "Changed"
	status.Exhaustion.Roles[0] = "changed"
	status.Roles[0].StabilizationHistory[0].Replicas = 99
	require.Equal(t, before, s)

	status = full().Status()
	s = StateFromStatus(status)
	s.LastCommit.Vector["a"] = 99
	require.Equal(t, int32(3), status.LastCommit.Vector["a"])
}

func TestNumbersSaturateOnTheirWayToTheStatus(t *testing.T) {
	require.Equal(t, "2400500m", decimal(2400.5, resource.Milli).String())
	require.Equal(t, "2400", decimal(2400, resource.Milli).String())
	require.Positive(t, decimal(math.MaxFloat64, resource.Milli).Value())
	require.Negative(t, decimal(-math.MaxFloat64, resource.Nano).Sign())
	require.True(t, decimal(math.NaN(), resource.Milli).IsZero())
	require.EqualValues(t, math.MaxInt64, *count(observe.Known(math.MaxFloat64)))
	require.Nil(t, count(observe.Value{}))
	require.Nil(t, quantity(observe.Value{}))
}

func TestTimesAreRoundedUpToWholeSeconds(t *testing.T) {
	require.Equal(t, noon, stamp(noon).Time)
	require.Equal(t, noon.Add(time.Second), stamp(noon.Add(1)).Time)
	require.Equal(t, noon.Add(time.Second), stamp(noon.Add(time.Second)).Time)
}

func TestStoredTimesAreNotTrusted(t *testing.T) {
	future := metav1.NewTime(noon.Add(10 * time.Hour))
	s := with(server(4)).queue("server", 10)
	s.State.PendingCohort = &workerv1.PendingCohort{BaselineVector: workerv1.Vector{"server": 3}, TargetVector: workerv1.Vector{"server": 4}, StartedAt: future}
	s.State.LastScaleDown = &workerv1.ScaleDownStatus{Role: "server", Outcome: workerv1.ScaleDownAborted, AbortedAt: &future, CooldownUntil: &future}
	s.State.Exhaustion = &workerv1.ExhaustionStatus{Roles: []string{"server"}, Attempts: 2, BlockedUntil: future}
	s.State.Roles[0].LastScaleUpTime, s.State.Roles[0].PanicUntil = future.Time, future.Time
	s.State.Roles[0].History = windows.History{{At: noon.Add(-time.Minute), Replicas: 2}, {At: future.Time, Replicas: 9}}
	s.State.Predictors = []Predictor{{Name: "server", Level: 5, Samples: 3, History: windows.Average{{At: noon.Add(-time.Minute)}, {At: future.Time}}}}
	before := clone(s.Input)
	p := newPass(s.Input)
	require.Equal(t, before, s.Input)
	require.Equal(t, noon, p.state.PendingCohort.StartedAt.Time)
	require.Equal(t, noon, p.state.LastScaleDown.AbortedAt.Time)
	require.Equal(t, noon.Add(5*time.Minute), p.state.LastScaleDown.CooldownUntil.Time)
	require.Equal(t, noon.Add(10*time.Minute), p.state.Exhaustion.BlockedUntil.Time, "the second wait is twice the timeout")
	require.Equal(t, noon, p.state.Roles[0].LastScaleUpTime)
	require.Equal(t, noon.Add(10*time.Minute), p.state.Roles[0].PanicUntil)
	require.Equal(t, windows.History{{At: noon.Add(-time.Minute), Replicas: 2}}, p.state.Roles[0].History)
	require.Equal(t, Predictor{Name: "server", History: windows.Average{{At: noon.Add(-time.Minute)}}}, p.state.Predictors[0])

	past := metav1.NewTime(noon.Add(-time.Minute))
	s.State.LastScaleDown = &workerv1.ScaleDownStatus{AbortedAt: &past, CooldownUntil: &future}
	require.Equal(t, noon.Add(4*time.Minute), newPass(s.Input).state.LastScaleDown.CooldownUntil.Time, "no cooldown outlives its own length")
	s.State.LastScaleDown = &workerv1.ScaleDownStatus{CooldownUntil: &future}
	require.Equal(t, noon.Add(5*time.Minute), newPass(s.Input).state.LastScaleDown.CooldownUntil.Time, "a start that is missing is now")
}

func TestStoredSpanOfAGapIsNotTrusted(t *testing.T) {
	s := tokens(observe.Server, 4, 150)
	s.State.Predictors[0].History = windows.Average{
		{At: noon.Add(-9 * time.Minute), PerSecond: 100}, {At: noon.Add(-time.Minute), Span: 8 * time.Minute, PerSecond: 900}}
	require.Equal(t, interval, newPass(s.Input).state.Predictors[0].History[1].Span)
}

func TestBackoffDoublesUpToHalfAnHour(t *testing.T) {
	require.Equal(t, time.Minute, backoff(time.Minute, 0))
	require.Equal(t, time.Minute, backoff(time.Minute, 1))
	require.Equal(t, 4*time.Minute, backoff(time.Minute, 3))
	require.Equal(t, 30*time.Minute, backoff(time.Minute, math.MaxInt32))
	require.Equal(t, time.Hour, backoff(time.Hour, 5), "a longer base stays")
}

// The largest scaler there is: as many roles as are allowed, every history full, every number long (D45).
func TestTheLargestStatusFitsIntoAnObject(t *testing.T) {
	const roles, entries = 16, 256
	s := State{}
	for i := range roles {
		name := strings.Repeat("r", 60) + strconv.Itoa(i)
		r := RoleState{Name: name, Current: 1024, Ready: 1024, Raw: math.MaxInt32, Reason: ReasonConsolidationHold}
		p := Predictor{Name: name, Level: -123456.789012345, Trend: 98765.432101234, P00: 1e12 / 7, P01: 1e12 / 7, P11: 1e12 / 7, Samples: math.MaxInt64}
		for e := range entries {
			at := noon.Add(time.Duration(e) * 5 * time.Second)
			r.History = append(r.History, windows.Recommendation{At: at, Replicas: 1024})
			p.History = append(p.History, windows.Rate{At: at, Span: 5 * time.Second, PerSecond: 987654.321098765})
		}
		s.Roles, s.Predictors = append(s.Roles, r), append(s.Predictors, p)
	}
	data, err := json.Marshal(s.Status())
	require.NoError(t, err)
	require.Less(t, len(data), 1<<20)
	t.Logf("%d KiB", len(data)>>10)
}

// A window with a gap or a lower bound in it lets nothing shrink, before a restart and after it (D13, D54).
func TestAStoredWindowIsNoMoreWholeThanItWas(t *testing.T) {
	demand := func(change func(i int, rate *windows.Rate) (keep bool)) windows.Average {
		var made windows.Average
		for i := range 40 {
			rate := windows.Rate{At: noon.Add(time.Duration(i-39) * interval), Span: interval, PerSecond: 100}
			if change(i, &rate) {
				made = append(made, rate)
			}
		}
		return made
	}
	for name, tt := range map[string]struct {
		demand windows.Average
		whole  bool
	}{
		"whole":                            {demand(func(int, *windows.Rate) bool { return true }), true},
		"a gap longer than may be bridged": {demand(func(i int, _ *windows.Rate) bool { return i < 30 || i > 35 }), false},
		"a gap that may be bridged":        {demand(func(i int, _ *windows.Rate) bool { return i != 33 }), true},
		"a lower bound":                    {demand(func(i int, rate *windows.Rate) bool { rate.Partial = i == 33; return true }), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := State{Predictors: []Predictor{{Name: "server", History: tt.demand}}}
			restored := begun(StateFromStatus(s.Status()).predictor("server").History, interval)
			whole := func(h windows.Average) bool {
				return spans(h, noon, 3*time.Minute, windows.MaxGap(interval)) && !h.Over(noon, 3*time.Minute).Partial
			}
			require.Equal(t, tt.whole, whole(tt.demand))
			require.Equal(t, tt.whole, whole(restored))
		})
	}
}
