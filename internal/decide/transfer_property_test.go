package decide_test

import (
	"slices"
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
	transfers, seen := 0, map[[2]string]int{}
	rapid.Check(t, func(t *rapid.T) {
		run, began := newTransferRun(t), int32(0)
		for range rapid.IntRange(30, 150).Draw(t, "passes") {
			run.pass(t)
			checkTransferState(t, run.last, seen)
			began = checkTransfer(t, run.last, began)
			if c := run.last.Decision.Commit; run.last.Written && c != nil && c.Kind == fence.CommitDonate {
				transfers++
			}
		}
	})
	require.Positive(t, transfers, "nothing was ever transferred")
	for _, state := range transferStates {
		require.Positive(t, seen[state.state], "%v was never reached", state.state)
	}
}

type transferStep struct {
	state [2]string
	next  [][2]string
}

// transferStates are the states of status.rebalance, reason and donationAttempted, in the order of their table in
// docs/design/0002-recovery.md, each with those that one pass may lead to. That an episode ends, and with it the record, is
// always possible; a pass that ends one may also begin the next.
var transferStates = []transferStep{
	{noTransfer, [][2]string{refused}},
	{refused, [][2]string{notApplicable, illegal, releasing}},
	{notApplicable, [][2]string{refused, illegal, releasing}},
	{illegal, [][2]string{refused, notApplicable, releasing}},
	{releasing, [][2]string{acquiring, attempted, spent}},
	{acquiring, [][2]string{attempted, spent}},
	{attempted, [][2]string{spent}},
	{spent, nil},
}

var (
	noTransfer    = [2]string{"(no record)", ""}
	refused       = [2]string{decide.StepResourceExhausted, "no"}
	notApplicable = [2]string{decide.StepNotApplicable, "no"}
	illegal       = [2]string{decide.StepBlocked, "no"}
	releasing     = [2]string{decide.StepDonorRelease, "yes"}
	acquiring     = [2]string{decide.StepReceiverAcquire, "yes"}
	attempted     = [2]string{decide.StepDonationAttempted, "yes"}
	spent         = [2]string{decide.StepBlocked, "yes"}
)

func transferState(b *workerv1.RebalanceStatus) [2]string {
	switch {
	case b == nil:
		return noTransfer
	case b.DonationAttempted:
		return [2]string{b.Reason, "yes"}
	}
	return [2]string{b.Reason, "no"}
}

// checkTransferState: a pass leads to a state that the table allows. A new leader may adopt a leg that no status tells of (D33).
func checkTransferState(t *rapid.T, p scenario.Pass, seen map[[2]string]int) {
	from, to := transferState(p.Input.State.Rebalance), transferState(p.State.Rebalance)
	seen[to]++
	ended := to == noTransfer || to == refused && !transferRuns(p.Input.State.Rebalance)
	if from == to || ended || !p.Written && p.Input.State.LastCommit != p.State.LastCommit {
		return
	}
	at := slices.IndexFunc(transferStates, func(s transferStep) bool { return s.state == from })
	require.GreaterOrEqual(t, at, 0, "%v is no state", from)
	require.Contains(t, transferStates[at].next, to, "from %v: %s", from, traces(p, p))
}

func TestTransferStatesAreDocumented(t *testing.T) {
	table := decide.Tables(t, "design/0002-recovery.md")[1]
	var states [][2]string
	for _, s := range transferStates {
		states = append(states, s.state)
	}
	reasons, attempts := decide.Column(table, 0), decide.Column(table, 1)
	var documented [][2]string
	for i := range table {
		documented = append(documented, [2]string{reasons[i], attempts[i]})
	}
	require.Equal(t, states, documented)
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
	ratio := workerv1.Ratio{NumeratorRole: "a", DenominatorRole: "b", Min: decide.QuantityOf("0.6"), Max: decide.QuantityOf("1.6")}
	if inBand(ratio, setup.Target.Roles[0].Replicas, setup.Target.Roles[1].Replicas) && rapid.Bool().Draw(t, "ratio") {
		spec.Ratios = []workerv1.Ratio{ratio}
	}
	workerv1.Default(spec)
	setup.World = scenario.World{Pools: map[string]int{"a100": total}, Admit: rapid.SampledFrom([]scenario.Delay{0, 20}).Draw(t, "admission")}
	run := startRun(t, setup, true)
	run.every = rapid.SampledFrom([]int{15, 30}).Draw(t, "pace")
	for i, name := range rapid.Permutation(names).Draw(t, "hungry first") { // one wants more than there is, one less than it has
		run.readings[name] = scenario.Reading{Running: float64([]int{70, 5, 25}[i])}
	}
	return run
}

// checkTransfer returns what the counts added up to when the latest transfer began.
func checkTransfer(t *rapid.T, p scenario.Pass, began int32) int32 {
	last, was, is := p.Decision.Commit, p.Input.State.Rebalance, p.State.Rebalance
	if !p.Written || last == nil {
		return began
	}
	moved, before, after := int32(0), int32(0), int32(0)
	for role, count := range last.Decision.Vector {
		moved += max(count-last.Baseline[role], last.Baseline[role]-count)
		before, after = before+last.Baseline[role], after+count
	}
	switch last.Kind {
	case fence.CommitDonate:
		require.EqualValues(t, 1, moved)
		require.False(t, was.DonationAttempted, "one donation an episode")
		require.Equal(t, last.Baseline[is.DonorRole]-1, last.Decision.Vector[is.DonorRole])
		return before
	case fence.CommitAcquire:
		require.EqualValues(t, 1, moved)
		require.Equal(t, decide.StepDonorRelease, was.Reason)
		require.Equal(t, last.Baseline[was.ReceiverRole]+1, last.Decision.Vector[was.ReceiverRole])
		require.LessOrEqual(t, after, began, "the total is over that of the start")
	default:
		require.False(t, transferRuns(was) && transferRuns(is), "%s in a running transfer: %+v then %+v", last.Kind, was, last)
	}
	return began
}

func transferRuns(b *workerv1.RebalanceStatus) bool {
	return b != nil && (b.Reason == decide.StepDonorRelease || b.Reason == decide.StepReceiverAcquire)
}
