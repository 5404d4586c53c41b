package decide

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/windows"
)

func TestStepLimitsOfOnePass(t *testing.T) {
	pods := func(n int32) *workerv1.StepPolicy { return &workerv1.StepPolicy{Type: workerv1.StepPods, Value: n} }
	share := func(n int32) *workerv1.StepPolicy { return &workerv1.StepPolicy{Type: workerv1.StepPercent, Value: n} }
	tests := []struct {
		name    string
		up      workerv1.ScaleUp
		down    workerv1.ScaleDown
		current int32
		most    int32
		least   int32
	}{
		{"by default four replicas up, one down", workerv1.ScaleUp{}, workerv1.ScaleDown{}, 2, 6, 1},
		{"by default a larger count doubles", workerv1.ScaleUp{}, workerv1.ScaleDown{}, 10, 20, 9},
		{"the larger of the two bounds counts", workerv1.ScaleUp{MaxStepReplicas: 1, MaxStepPercent: 50}, workerv1.ScaleDown{}, 10, 15, 9},
		{"also when it is the replicas", workerv1.ScaleUp{MaxStepReplicas: 9, MaxStepPercent: 50}, workerv1.ScaleDown{}, 10, 19, 9},
		{"a percentage rounds up", workerv1.ScaleUp{MaxStepReplicas: 1, MaxStepPercent: 21}, workerv1.ScaleDown{}, 10, 13, 9},
		{"a policy stands alone", workerv1.ScaleUp{MaxStepReplicas: 9, StepPolicy: pods(2)}, workerv1.ScaleDown{StepPolicy: pods(3)}, 10, 12, 7},
		{"a policy in percent rounds up both ways", workerv1.ScaleUp{StepPolicy: share(1)}, workerv1.ScaleDown{StepPolicy: share(1)}, 3, 4, 2},
		{"percentages are exact integers", workerv1.ScaleUp{StepPolicy: share(110)}, workerv1.ScaleDown{StepPolicy: share(29)}, 100, 210, 71},
		{"zero stops", workerv1.ScaleUp{StepPolicy: pods(0)}, workerv1.ScaleDown{StepPolicy: share(0)}, 10, 10, 10},
		{"a huge step saturates", workerv1.ScaleUp{StepPolicy: share(math.MaxInt32)}, workerv1.ScaleDown{StepPolicy: pods(math.MaxInt32)}, 1024, math.MaxInt32, 1024 - math.MaxInt32},
		{"a negative step is none", workerv1.ScaleUp{StepPolicy: pods(-5)}, workerv1.ScaleDown{StepPolicy: share(-5)}, 10, 10, 10},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &pass{spec: &workerv1.ModelDeploymentScalerSpec{Behavior: workerv1.Behavior{ScaleUp: tt.up, ScaleDown: tt.down}}}
			r := &role{}
			r.Replicas = tt.current
			most, _ := stepUp(p, r)
			least, _ := stepDown(p, r)
			require.Equal(t, tt.most, most)
			require.Equal(t, tt.least, least)
		})
	}
}

// past makes a history of entries that are so many seconds old.
func past(entries ...windows.Recommendation) windows.History { return windows.HistoryOf(noon, entries) }

func ago(seconds int, replicas int32) windows.Recommendation {
	return windows.Recommendation{At: noon.Add(-time.Duration(seconds) * time.Second), Replicas: replicas}
}

func TestWindowsOfGrowthAndShrinking(t *testing.T) {
	every15 := func(seconds int, replicas int32) (entries []windows.Recommendation) {
		for s := seconds; s > 0; s -= 15 {
			entries = append(entries, ago(s, replicas))
		}
		return entries
	}
	tests := []struct {
		name     string
		up, down int32 // windows in seconds
		history  []windows.Recommendation
		queue    float64
		want     int32
		rule     string
	}{
		{"without an up window growth is at once", 0, 0, nil, 60, 6, ""},
		{"growth waits for the window", 60, 0, every15(45, 6), 60, 4, RuleHistoryShort},
		{"and comes when it is spanned", 60, 0, every15(60, 6), 60, 6, ""},
		{"to the lowest recommendation in it", 60, 0, append(every15(75, 6), ago(20, 5)), 60, 5, RuleUpWindow},
		{"a dip under the current count holds it", 60, 0, append(every15(75, 6), ago(20, 2)), 60, 4, RuleUpWindow},
		{"a dip as old as the window has left it", 60, 0, append(every15(45, 6), ago(60, 2)), 60, 6, ""},
		{"a gap of over a minute starts the window anew", 60, 0, []windows.Recommendation{ago(90, 6), ago(15, 6)}, 60, 4, RuleHistoryShort},
		{"shrinking waits for the window", 0, 60, every15(45, 2), 20, 4, RuleHistoryShort},
		{"and comes when it is spanned", 0, 60, every15(60, 2), 20, 3, RuleStep},
		{"the highest recommendation in it is a floor", 0, 60, append(every15(60, 2), ago(20, 4)), 20, 4, RuleDownWindow},
		{"the floor never raises a count", 0, 60, append(every15(60, 2), ago(20, 9)), 20, 4, RuleDownWindow},
		{"a peak as old as the window has left it", 0, 60, append(every15(45, 2), ago(60, 9)), 20, 3, RuleStep},
		{"zero means five minutes", 0, 0, every15(285, 2), 20, 4, RuleHistoryShort},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := with(server(4)).queue("server", tt.queue)
			s.State.Roles[0].History = past(tt.history...)
			s.Scaler.Spec.Behavior.ScaleUp.StabilizationWindowSeconds = tt.up
			s.Scaler.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = tt.down
			d := Plan(s.Input)
			requireCount(t, tt.want, d, "server")
			if tt.rule == "" {
				require.Empty(t, rules(d, "server"))
				return
			}
			require.Equal(t, tt.rule, rules(d, "server")[0])
			require.Equal(t, "True/PacingBounded", conditionOf(d.State, workerv1.ConditionBlocked))
			require.Equal(t, ReasonPacingBounded, d.State.role("server").Reason)
		})
	}
}

func TestBoundsLimitTheCountButAreNoPacing(t *testing.T) {
	s := with(server(4)).queue("server", 90)
	s.Scaler.Spec.Roles[0].MaxReplicas = 5
	d := Plan(s.Input)
	require.Equal(t, map[string]int32{"server": 5}, vectorOf(d))
	require.Equal(t, []string{RuleStep, RuleBounds}, rules(d, "server"))

	s.Scaler.Spec.Behavior.ScaleUp.MaxStepReplicas = 16
	d = Plan(s.Input)
	require.Equal(t, []string{RuleBounds}, rules(d, "server"))
	require.Equal(t, ReasonPacingBounded, d.State.role("server").Reason)
	require.Equal(t, "False/Ready", conditionOf(d.State, workerv1.ConditionBlocked))

	s = with(server(3)).remembering("server", 1)
	s.Scaler.Spec.Roles[0].MinReplicas = 3
	require.Equal(t, []string{RuleStep, RuleBounds}, rules(Plan(s.Input), "server"))
}

func TestTraceNamesEveryStageInOrder(t *testing.T) {
	d := Plan(with(server(4)).queue("server", 900).Input)
	var stages []string
	for _, s := range d.Trace["server"] {
		stages = append(stages, s.Stage)
	}
	require.Equal(t, []string{StageRecommend, StageUpWindow, StageDownWindow, StageStep, StageBounds, StageGuards, StageProject}, stages)
	require.Equal(t, Step{StageRecommend, 90, ReasonProportional}, d.Trace["server"][0])
	require.Equal(t, Step{StageStep, 8, RuleStep}, d.Trace["server"][3])
	require.Equal(t, Step{StageBounds, 8, ""}, d.Trace["server"][4])
}

func TestOneCommitMovesOneWay(t *testing.T) {
	s := with(named("up", observe.Server, 4), named("down", observe.Server, 4)).remembering("down", 1)
	s.queue("up", 60)
	d := Plan(s.Input)
	require.Equal(t, map[string]int32{"up": 6, "down": 4}, vectorOf(d))
	require.Equal(t, []string{RuleStep, RuleGrowthFirst}, rules(d, "down"))

	s.Scaler.Spec.Behavior.ScaleUp.StepPolicy = &workerv1.StepPolicy{Type: workerv1.StepPods}
	require.Equal(t, map[string]int32{"up": 4, "down": 3}, vectorOf(Plan(s.Input)), "growth that is not written makes nobody wait")
}
