package decide_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/decide"
	"gpustack.ai/model-deployment-scaler/internal/fence"
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

// checkRole: steps and guards of an ordinary growth or shrink, computed from the input alone.
func checkRole(t *rapid.T, in decide.Input, d decide.Decision, r target.Role, why string) {
	to := d.Commit.Decision.Vector[r.Name]
	state := roleOf(d.State, r.Name)
	coupled := len(in.Scaler.Spec.Ratios) > 0
	switch {
	case to > r.Replicas && d.Commit.Kind == fence.CommitUp:
		require.LessOrEqual(t, int64(to-r.Replicas), allowedGrowth(in.Scaler.Spec.Behavior.ScaleUp, r.Replicas), why)
		require.Nil(t, d.State.PendingCohort, why)
		for o := range int(r.Replicas) {
			require.True(t, slices.ContainsFunc(in.Target.Instances, func(i target.Instance) bool {
				return i.Role == r.Name && i.Ordinal == o && i.Admission == target.AdmissionGranted
			}), "growth past an unadmitted replica: %s", why)
		}
		if !coupled {
			require.LessOrEqual(t, to, state.Raw, why)
		}
	case to < r.Replicas && (d.Commit.Kind == fence.CommitDown || d.Commit.Kind == fence.CommitDonate):
		require.LessOrEqual(t, int64(r.Replicas-to), allowedShrink(in.Scaler.Spec.Behavior.ScaleDown, r.Replicas), why)
		require.False(t, in.Target.Retirement.Running(), why)
		require.NotEqual(t, decide.ReasonPanic, state.Reason, why)
		require.Positive(t, state.Ready, why)
		if s := d.State.LastScaleDown; s != nil && s.CooldownUntil != nil {
			require.False(t, in.Now.Before(s.CooldownUntil.Time), why)
		}
		if !coupled {
			o := in.Observations[r.Name]
			require.True(t, o.Coverage.Complete(), why)
			require.LessOrEqual(t, o.Age, 2*o.Interval+2*time.Second, why)
			if d.Commit.Kind == fence.CommitDown {
				require.GreaterOrEqual(t, to, state.Raw, why)
			}
		}
	}
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
