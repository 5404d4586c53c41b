package decide_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/decide"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/scenario"
)

// Random demand on two or three roles of one full pool: every transfer moves both legs or none, one replica at a time, and
// never more than once in an episode.
func TestRandomTransfersMoveBothLegsOrNone(t *testing.T) {
	transfers := 0
	rapid.Check(t, func(t *rapid.T) {
		run := newTransferRun(t)
		for range rapid.IntRange(20, 150).Draw(t, "passes") {
			run.pass(t)
			if checkTransfer(t, run.last) {
				transfers++
			}
		}
	})
	require.Positive(t, transfers, "nothing was ever transferred")
}

func newTransferRun(t *rapid.T) *randomRun {
	names := []string{"a", "b", "c"}[:rapid.IntRange(2, 3).Draw(t, "pool members")]
	setup, total := scenario.Setup{}, 0
	spec := &setup.Spec
	spec.Mode, spec.Sampling.PendingTimeoutSeconds = workerv1.ModeActive, 60
	spec.Behavior.ScaleDown.StabilizationWindowSeconds = 1800 // ordinary shrinking stays out of the way
	spec.Rebalance = workerv1.Rebalance{Policy: rapid.SampledFrom([]workerv1.RebalancePolicy{workerv1.RebalanceOpposing, workerv1.RebalancePriority}).Draw(t, "policy"),
		Priority: rapid.Permutation(names).Draw(t, "list")}
	spec.Algorithm.Proportional = &workerv1.Proportional{Metric: workerv1.MetricQueueDepth}
	for _, name := range names {
		count := rapid.Int32Range(2, 5).Draw(t, "count")
		total += int(count)
		setup.Target.Roles = append(setup.Target.Roles, scenario.Role{Name: name, Replicas: count, InstanceType: "a100"})
		spec.Roles = append(spec.Roles, workerv1.RoleBounds{Name: name, MinReplicas: 1, MaxReplicas: 12})
		spec.Algorithm.Proportional.RoleTargets = append(spec.Algorithm.Proportional.RoleTargets, workerv1.RoleTarget{Name: name, Target: *decide.QuantityOf("10")})
	}
	workerv1.Default(spec)
	setup.World = scenario.World{Pools: map[string]int{"a100": total}, Admit: rapid.SampledFrom([]scenario.Delay{0, 20}).Draw(t, "admission")}
	return startRun(t, setup, true)
}

// checkTransfer says whether the pass began a transfer.
func checkTransfer(t *rapid.T, p scenario.Pass) bool {
	last, was, is := p.Decision.Commit, p.Input.State.Rebalance, p.State.Rebalance
	if !p.Written || last == nil {
		return false
	}
	moved := int32(0)
	for role, count := range last.Decision.Vector {
		moved += max(count-last.Baseline[role], last.Baseline[role]-count)
	}
	switch last.Kind {
	case fence.CommitDonate:
		require.EqualValues(t, 1, moved)
		require.False(t, was.DonationAttempted, "one donation an episode")
		require.Equal(t, last.Baseline[is.DonorRole]-1, last.Decision.Vector[is.DonorRole])
		return true
	case fence.CommitAcquire:
		require.EqualValues(t, 1, moved)
		require.Equal(t, decide.StepDonorRelease, was.Reason)
		require.Equal(t, last.Baseline[was.ReceiverRole]+1, last.Decision.Vector[was.ReceiverRole])
	default:
		require.False(t, transferRuns(was) && transferRuns(is), "%s in a running transfer: %+v then %+v", last.Kind, was, last)
	}
	return false
}

func transferRuns(b *workerv1.RebalanceStatus) bool {
	return b != nil && (b.Reason == decide.StepDonorRelease || b.Reason == decide.StepReceiverAcquire)
}
