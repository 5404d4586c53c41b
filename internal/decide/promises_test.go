package decide_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/decide"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

func checkMemory(t *rapid.T, s decide.State) {
	data, err := json.Marshal(s.Status())
	require.NoError(t, err)
	require.Less(t, len(data), 1<<20)
	for _, r := range s.Roles {
		require.LessOrEqual(t, len(r.History), 256)
		require.GreaterOrEqual(t, r.Raw, int32(0))
	}
	for i := range s.Predictors {
		require.LessOrEqual(t, len(s.Predictors[i].History), 256)
		p := &s.Predictors[i]
		for _, number := range []float64{p.Level, p.Trend, p.P00, p.P01, p.P11} {
			require.False(t, math.IsNaN(number) || math.IsInf(number, 0), "%+v", p)
		}
	}
	for _, c := range s.Conditions {
		require.LessOrEqual(t, len(c.Message), 1024)
	}
}

// checkDecision holds a decision against the promises, computed anew from the input.
func checkDecision(t *rapid.T, in decide.Input, d decide.Decision) {
	if d.Release || d.Reread {
		require.Nil(t, d.Commit)
	}
	if d.Commit == nil {
		return
	}
	c := d.Commit
	why := fmt.Sprintf("%+v trace %v", *c, d.Trace)
	require.Equal(t, workerv1.ModeActive, in.Scaler.Spec.Mode)
	require.False(t, in.Scaler.Spec.Suspend)
	id, err := fence.ParseDecisionID(c.Decision.DecisionID)
	require.NoError(t, err)
	require.Equal(t, c.Kind, id.Kind)
	if last := in.State.LastCommit; last != nil {
		require.Greater(t, id.Sequence, sequenceOf(t, last.DecisionID))
	}
	require.Len(t, c.Decision.Vector, len(in.Target.Roles))
	before := map[string]int32{}
	moved := false
	for _, r := range in.Target.Roles {
		to := c.Decision.Vector[r.Name]
		before[r.Name] = r.Replicas
		moved = moved || to != r.Replicas
		if c.Kind.Grows() {
			require.GreaterOrEqual(t, to, r.Replicas, why)
		} else {
			require.LessOrEqual(t, to, r.Replicas, why)
		}
	}
	require.True(t, moved, why)
	require.Equal(t, before, c.Baseline)
	checkBounds(t, in, c, why)
	for _, r := range in.Target.Roles {
		checkRole(t, in, d, r, why)
	}
	if c.Kind == fence.CommitRollback {
		checkRollback(t, in, d, d.Settle(decide.Outcome{Written: true, Generation: in.Target.Generation + 1, At: in.Now}))
	}
}

// checkBounds: every written vector is within bounds and bands.
func checkBounds(t *rapid.T, in decide.Input, c *decide.Commit, why string) {
	for _, b := range in.Scaler.Spec.Roles {
		require.GreaterOrEqual(t, c.Decision.Vector[b.Name], b.MinReplicas, why)
		require.LessOrEqual(t, c.Decision.Vector[b.Name], b.MaxReplicas, why)
	}
	for _, r := range in.Scaler.Spec.Ratios {
		require.True(t, inBand(r, c.Decision.Vector[r.NumeratorRole], c.Decision.Vector[r.DenominatorRole]), "%+v: %s", r, why)
	}
}

// inBand is computed without the planner, with the slack of D28 and a little more.
func inBand(r workerv1.Ratio, numerator, denominator int32) bool {
	ratio := float64(numerator) / float64(denominator)
	return (r.Min == nil || ratio >= r.Min.AsApproximateFloat64()*(1-1.01e-8)) &&
		(r.Max == nil || ratio <= r.Max.AsApproximateFloat64()*(1+1.01e-8))
}

// checkRole: steps and guards of growing and shrinking, computed from the input alone. Restore and rollback have none.
func checkRole(t *rapid.T, in decide.Input, d decide.Decision, r target.Role, why string) {
	to := d.Commit.Decision.Vector[r.Name]
	switch d.Commit.Kind {
	case fence.CommitUp, fence.CommitAcquire:
		if to > r.Replicas {
			checkGrowth(t, in, d, r, why)
		}
	case fence.CommitDown, fence.CommitDonate:
		if to < r.Replicas {
			checkShrink(t, in, d, r, why)
		}
	}
}

func checkGrowth(t *rapid.T, in decide.Input, d decide.Decision, r target.Role, why string) {
	to := d.Commit.Decision.Vector[r.Name]
	if d.Commit.Kind == fence.CommitAcquire {
		require.Equal(t, r.Replicas+1, to, why)
	} else {
		require.LessOrEqual(t, int64(to-r.Replicas), allowedGrowth(in.Scaler.Spec.Behavior.ScaleUp, r.Replicas), why)
	}
	require.Nil(t, d.State.PendingCohort, why)
	for o := range int(r.Replicas) {
		require.True(t, slices.ContainsFunc(in.Target.Instances, func(i target.Instance) bool {
			return i.Role == r.Name && i.Ordinal == o && i.Admission == target.AdmissionGranted
		}), "growth past an unadmitted replica: %s", why)
	}
	if !coupled(in, r.Name) {
		require.LessOrEqual(t, to, roleOf(d.State, r.Name).Raw, "growth over its own recommendation: %s", why)
	}
}

// holds of an algorithm keep their name whatever else stands in the way (D23).
var holds = []string{decide.ReasonPanic, decide.ReasonNoReadyReplicas, decide.ReasonWaitingForMetrics, decide.ReasonLatencyGuardHold,
	decide.ReasonLatencyGuardScaleUp, decide.ReasonConsolidationHold, decide.ReasonWaitingWithoutDemand}

func checkShrink(t *rapid.T, in decide.Input, d decide.Decision, r target.Role, why string) {
	to, state, behavior := d.Commit.Decision.Vector[r.Name], roleOf(d.State, r.Name), in.Scaler.Spec.Behavior.ScaleDown
	require.LessOrEqual(t, int64(r.Replicas-to), allowedShrink(behavior, r.Replicas), why)
	require.Positive(t, state.Ready, why)
	require.False(t, in.Target.Retirement.Running(), why)
	for _, i := range in.Target.Instances {
		if at := slices.IndexFunc(in.Target.Roles, func(r target.Role) bool { return r.Name == i.Role }); at >= 0 {
			require.Less(t, i.Ordinal, int(in.Target.Roles[at].Replicas), "a removed replica is still there: %s", why)
		}
	}
	if s := d.State.LastScaleDown; s != nil && s.CooldownUntil != nil {
		require.False(t, in.Now.Before(s.CooldownUntil.Time), why)
	}
	if r.Kind == observe.Decode && !state.LastScaleUpTime.IsZero() {
		grace := time.Duration(cmp.Or(behavior.DecodePostScaleUpGraceSeconds, 120)) * time.Second
		require.False(t, in.Now.Before(state.LastScaleUpTime.Add(grace)), "in its grace: %s", why)
	}
	if sized(in, r) {
		o := in.Observations[r.Name]
		require.True(t, o.Coverage.Complete(), why)
		require.True(t, o.Coverage.RatesComplete() || !rates(in), why)
		require.LessOrEqual(t, o.Age, 2*o.Interval+2*time.Second, why)
		require.False(t, in.Now.Before(state.PanicUntil), "in panic: %s", why)
		require.NotContains(t, holds, state.Reason, why)
	}
	if !coupled(in, r.Name) && d.Commit.Kind == fence.CommitDown {
		require.GreaterOrEqual(t, to, state.Raw, "shrunk under its own recommendation: %s", why)
	}
}

// checkRollback: the grown roles come back to where they were, all in the one write, and the cohort is over. Where that would break
// bounds or bands, because somebody edited them or another role has moved meanwhile, the nearest legal vector is written (D30).
func checkRollback(t *rapid.T, in decide.Input, d decide.Decision, settled decide.State) {
	require.Nil(t, settled.PendingCohort)
	cohort, want := in.State.PendingCohort, map[string]int32{}
	require.NotNil(t, cohort)
	for _, r := range in.Target.Roles {
		want[r.Name] = r.Replicas
		if cohort.TargetVector[r.Name] > cohort.BaselineVector[r.Name] {
			want[r.Name] = min(r.Replicas, cohort.BaselineVector[r.Name])
		}
	}
	for _, b := range in.Scaler.Spec.Roles {
		if want[b.Name] < b.MinReplicas || want[b.Name] > b.MaxReplicas {
			return
		}
	}
	for _, r := range in.Scaler.Spec.Ratios {
		if !inBand(r, want[r.NumeratorRole], want[r.DenominatorRole]) {
			return
		}
	}
	require.Equal(t, want, d.Commit.Decision.Vector, "%+v", *cohort)
}

// coupled says that a ratio may move the role.
func coupled(in decide.Input, role string) bool {
	return slices.ContainsFunc(in.Scaler.Spec.Ratios, func(r workerv1.Ratio) bool {
		return r.NumeratorRole == role || r.DenominatorRole == role
	})
}

// sized says that the role has a target of its own.
func sized(in decide.Input, r target.Role) bool {
	if p := in.Scaler.Spec.Algorithm.Proportional; p != nil {
		return slices.ContainsFunc(p.RoleTargets, func(t workerv1.RoleTarget) bool { return t.Name == r.Name })
	}
	return r.Kind != observe.Encode
}

// rates says that the algorithm reads rates.
func rates(in decide.Input) bool {
	p := in.Scaler.Spec.Algorithm.Proportional
	return p == nil || strings.HasSuffix(string(p.Metric), "TokensPerSecond")
}

func sequenceOf(t *rapid.T, decisionID string) int64 {
	id, err := fence.ParseDecisionID(decisionID)
	require.NoError(t, err)
	return id.Sequence
}

func roleOf(s decide.State, name string) *decide.RoleState {
	for i := range s.Roles {
		if s.Roles[i].Name == name {
			return &s.Roles[i]
		}
	}
	return nil
}

func allowedGrowth(up workerv1.ScaleUp, current int32) int64 {
	share := func(percent int32) int64 { return int64(math.Ceil(float64(current) * float64(percent) / 100)) }
	if p := up.StepPolicy; p != nil {
		if p.Type == workerv1.StepPercent {
			return share(p.Value)
		}
		return int64(p.Value)
	}
	count, percent := up.MaxStepReplicas, up.MaxStepPercent
	if count == 0 {
		count = 4
	}
	if percent == 0 {
		percent = 100
	}
	return max(int64(count), share(percent))
}

func allowedShrink(down workerv1.ScaleDown, current int32) int64 {
	p := down.StepPolicy
	switch {
	case p == nil:
		return 1
	case p.Type == workerv1.StepPercent:
		return int64(math.Ceil(float64(current) * float64(p.Value) / 100))
	}
	return int64(p.Value)
}
