package decide

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// waiting is a growth of a from 2 to 4 and of b from 2 to 3 that began so long ago; a's ordinal 3 has no admission.
func waiting(since time.Duration) *setting {
	s := with(named("a", observe.Server, 4), named("b", observe.Decode, 3)).queue("a", 40).queue("b", 30)
	s.pending(workerv1.Vector{"a": 2, "b": 2}, workerv1.Vector{"a": 4, "b": 3}, noon.Add(-since))
	return s.instance("a", 3, func(i *target.Instance) { i.Admission, i.Ready = target.AdmissionPending, false })
}

func TestCohortIsTakenBackAsAWholeWhenItsTimeIsOver(t *testing.T) {
	tests := []struct {
		name   string
		change func(*setting)
		since  time.Duration
		want   map[string]int32
	}{
		{"the timeout itself is not over it", nil, 300 * time.Second, nil},
		{"one more nanosecond is", nil, 300*time.Second + 1, map[string]int32{"a": 2, "b": 2}},
		{"a timeout of its own", func(s *setting) { s.Scaler.Spec.Sampling.PendingTimeoutSeconds = 60 }, 61 * time.Second, map[string]int32{"a": 2, "b": 2}},
		{"an eviction undoes an admission", func(s *setting) {
			s.instance("a", 3, func(i *target.Instance) { i.Admission = target.AdmissionGranted })
			s.instance("b", 2, func(i *target.Instance) { i.Admission = target.AdmissionPending })
		}, time.Hour, map[string]int32{"a": 2, "b": 2}},
		{"a role that shrank meanwhile stays where it is", func(s *setting) { s.Target.Roles[1].Replicas = 1 }, time.Hour, map[string]int32{"a": 2, "b": 1}},
		{"a raised floor keeps what it must", func(s *setting) { s.Scaler.Spec.Roles[0].MinReplicas = 3 }, time.Hour, map[string]int32{"a": 3, "b": 2}},
		{"a new ratio is respected on the way down", func(s *setting) {
			s.Scaler.Spec.Ratios = []workerv1.Ratio{{NumeratorRole: "a", DenominatorRole: "b", Min: quantityOf("1.3")}}
		}, time.Hour, map[string]int32{"a": 3, "b": 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := waiting(tt.since)
			if tt.change != nil {
				tt.change(s)
			}
			d := Plan(s.Input)
			require.Equal(t, tt.want, vectorOf(d))
			if tt.want == nil {
				require.NotNil(t, d.State.PendingCohort)
				return
			}
			require.Equal(t, fence.CommitRollback, d.Commit.Kind)
			require.Equal(t, "True/ResourceExhausted", conditionOf(d.State, workerv1.ConditionBlocked))
			require.NotNil(t, d.State.PendingCohort, "until it is written")
			require.Nil(t, d.Settle(Outcome{Written: true, Generation: 8, At: noon}).PendingCohort)
		})
	}
}

func TestRollbackBeginsTheEpisodeOfTheRefusedRolesAlone(t *testing.T) {
	d := Plan(waiting(time.Hour).Input)
	e := d.Settle(Outcome{Written: true, Generation: 8, At: noon}).Exhaustion
	require.Equal(t, []string{"a"}, e.Roles)
	require.Equal(t, int32(1), e.Attempts)
	require.Equal(t, workerv1.Vector{"a": 2}, e.Increment)
	require.Equal(t, noon.Add(5*time.Minute), e.BlockedUntil.Time)
	require.Zero(t, d.Settle(Outcome{Written: true}).role("a").LastScaleUpTime, "a rollback is no growth")
	require.Equal(t, ReasonResourceExhausted, d.State.role("a").Reason)
}

func TestRepeatedRefusalsWaitLongerUpToHalfAnHour(t *testing.T) {
	tests := []struct {
		attempts int32
		want     time.Duration
	}{{0, 5 * time.Minute}, {1, 10 * time.Minute}, {2, 20 * time.Minute}, {3, 30 * time.Minute}, {1 << 30, 30 * time.Minute}}
	for _, tt := range tests {
		s := waiting(time.Hour)
		if tt.attempts > 0 {
			s.State.Exhaustion = &workerv1.ExhaustionStatus{Roles: []string{"a"}, Attempts: tt.attempts, Increment: workerv1.Vector{"a": 3}}
		}
		e := Plan(s.Input).Settle(Outcome{Written: true, At: noon}).Exhaustion
		require.Equal(t, noon.Add(tt.want), e.BlockedUntil.Time)
		require.Equal(t, tt.attempts+1, e.Attempts)
		require.Equal(t, workerv1.Vector{"a": 2}, e.Increment, "what was refused last")
	}
}

func TestRollbackThatNothingLegalAllowsIsHeldAndSaid(t *testing.T) {
	s := waiting(time.Hour)
	s.Scaler.Spec.Roles[0] = workerv1.RoleBounds{Name: "a", MinReplicas: 5, MaxReplicas: 9}
	d := Plan(s.Input)
	require.Nil(t, d.Commit)
	require.Equal(t, "False/ResourceExhausted", conditionOf(d.State, workerv1.ConditionMetricsReady))
	require.Contains(t, findCondition(d.State.Conditions, workerv1.ConditionMetricsReady).Message, "cannot be taken back")
}

func TestWhatEndsAnExhaustionEpisode(t *testing.T) {
	tests := []struct {
		name   string
		change func(*setting)
		ends   bool
	}{
		{"time alone does not", func(*setting) {}, false},
		{"an edit of the scaler does", func(s *setting) { s.Scaler.Generation++ }, true},
		{"somebody's edit of the target does", func(s *setting) { s.Target.Generation++ }, true},
		{"a status that never said its generation does not", func(s *setting) { s.State.ObservedGeneration = 0 }, false},
		{"an admitted cohort does", func(s *setting) {
			s.State.PendingCohort = &workerv1.PendingCohort{BaselineVector: workerv1.Vector{"server": 3}, TargetVector: workerv1.Vector{"server": 4}, StartedAt: metav1.NewTime(noon)}
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := with(server(4)).queue("server", 60)
			s.committed(fence.CommitRollback, nil, workerv1.Vector{"server": 4}, noon)
			s.State.Exhaustion = &workerv1.ExhaustionStatus{Roles: []string{"server"}, Attempts: 1, BlockedUntil: metav1.NewTime(noon.Add(time.Minute))}
			s.State.Rebalance = &workerv1.RebalanceStatus{Reason: StepBlocked, DonationAttempted: true}
			tt.change(s)
			d := Plan(s.Input)
			require.Equal(t, tt.ends, d.State.Exhaustion == nil)
			require.Equal(t, tt.ends, d.State.Rebalance == nil)
			require.Equal(t, tt.ends, d.Commit != nil)
		})
	}
}

// removed is a removal of a's ordinals 3 and 4 and b's 2 by our commit of generation 6, aborted at a/3.
func removed() *setting {
	s := with(named("a", observe.Server, 3), named("b", observe.Decode, 2)).queue("a", 30).queue("b", 20)
	s.committed(fence.CommitDown, workerv1.Vector{"a": 5, "b": 3}, workerv1.Vector{"a": 3, "b": 2}, noon.Add(-time.Minute))
	s.State.LastScaleDown = &workerv1.ScaleDownStatus{Role: "a", Ordinal: 4, DecisionID: s.State.LastCommit.DecisionID, TargetGeneration: 6,
		PreScaleDownVector: workerv1.Vector{"a": 5, "b": 3}, Outcome: workerv1.ScaleDownCommitted}
	s.Target.Retirement = &target.Retirement{Role: "a", Ordinal: 3, State: target.RetirementAborted, ObservedGeneration: 6}
	return s
}

func TestAbortedRemovalIsUndone(t *testing.T) {
	whole := map[string]int32{"a": 5, "b": 3}
	tests := []struct {
		name   string
		change func(*setting)
		want   map[string]int32
	}{
		{"the vector before comes back", func(*setting) {}, whole},
		{"also when another of its ordinals is named", func(s *setting) { s.Target.Retirement.Role, s.Target.Retirement.Ordinal = "b", 2 }, whole},
		{"a later generation of the target is as good", func(s *setting) { s.Target.Retirement.ObservedGeneration = 7 }, whole},
		{"an earlier one is somebody else's story", func(s *setting) { s.Target.Retirement.ObservedGeneration = 5 }, nil},
		{"an ordinal that is declared was not removed", func(s *setting) { s.Target.Retirement.Ordinal = 2 }, nil},
		{"an ordinal that never was neither", func(s *setting) { s.Target.Retirement.Ordinal = 5 }, nil},
		{"a role that nobody knows neither", func(s *setting) { s.Target.Retirement.Role = "c" }, nil},
		{"a retirement that still runs is not aborted", func(s *setting) { s.Target.Retirement.State = target.RetirementDraining }, nil},
		{"what was restored once stays so", func(s *setting) { s.State.LastScaleDown.Outcome = workerv1.ScaleDownAborted }, nil},
		{"a role that grew meanwhile keeps its count", func(s *setting) { s.Target.Roles[1].Replicas = 6; s.ready("b", 2, 6) }, map[string]int32{"a": 5, "b": 6}},
		{"a rolled-back cohort comes back up to the aborted ordinal", func(s *setting) {
			s.State.LastScaleDown.DecisionID = "abcdefgh-4.8.rollback"
		}, map[string]int32{"a": 4, "b": 2}},
		{"a lowered ceiling keeps what it may", func(s *setting) { s.Scaler.Spec.Roles[0].MaxReplicas = 4 }, map[string]int32{"a": 4, "b": 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := removed()
			tt.change(s)
			d := Plan(s.Input)
			require.Equal(t, tt.want, vectorOf(d))
			if tt.want != nil {
				require.Equal(t, fence.CommitRestore, d.Commit.Kind)
				require.Equal(t, "True/ScaleDownAborted", conditionOf(d.State, workerv1.ConditionBlocked))
				require.Equal(t, workerv1.ScaleDownCommitted, d.State.LastScaleDown.Outcome, "until it is written")
			}
		})
	}
}

func TestRestoreBeginsACooldownThatDoubles(t *testing.T) {
	tests := []struct {
		before int32
		want   time.Duration
	}{{0, 5 * time.Minute}, {1, 10 * time.Minute}, {2, 20 * time.Minute}, {9, 30 * time.Minute}}
	for _, tt := range tests {
		s := removed()
		s.State.LastScaleDown.ConsecutiveAborts = tt.before
		settled := Plan(s.Input).Settle(Outcome{Written: true, Generation: 8, At: noon})
		down := settled.LastScaleDown
		require.Equal(t, workerv1.ScaleDownAborted, down.Outcome)
		require.Equal(t, noon, down.AbortedAt.Time)
		require.Equal(t, noon.Add(tt.want), down.CooldownUntil.Time)
		require.Equal(t, tt.before+1, down.ConsecutiveAborts)
		require.Zero(t, settled.role("b").LastScaleUpTime, "a restore is no growth")
	}
}

func TestAbortsInARowAreThoseOfOneRole(t *testing.T) {
	for _, tt := range []struct {
		name    string
		role    string
		outcome workerv1.ScaleDownOutcome
		want    int32
	}{
		{"the same role again", "server", workerv1.ScaleDownAborted, 2},
		{"after a removal that went through", "server", workerv1.ScaleDownCommitted, 0},
		{"after another role's abort", "other", workerv1.ScaleDownAborted, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := shrinking(observe.Server)
			s.State.LastScaleDown = &workerv1.ScaleDownStatus{Role: tt.role, Outcome: tt.outcome, ConsecutiveAborts: 2}
			down := Plan(s.Input).Settle(Outcome{Written: true, Generation: 8, At: noon}).LastScaleDown
			require.Equal(t, tt.want, down.ConsecutiveAborts)
			require.Equal(t, int32(3), down.Ordinal)
			require.Equal(t, workerv1.Vector{"server": 4}, down.PreScaleDownVector)
			require.Equal(t, int64(8), down.TargetGeneration)
			require.Equal(t, workerv1.ScaleDownCommitted, down.Outcome)
		})
	}
}

func TestRecoveryGoesBeforeConflictsButNeedsBounds(t *testing.T) {
	s := waiting(time.Hour)
	s.Scaler.Spec.Roles[1].MaxReplicas = 2 // b has three: a conflict that the rollback heals
	require.Equal(t, map[string]int32{"a": 2, "b": 2}, vectorOf(Plan(s.Input)))

	s.Scaler.Spec.Roles = s.Scaler.Spec.Roles[:1]
	d := Plan(s.Input)
	require.Nil(t, d.Commit)
	require.Equal(t, "True/BoundsConflict", conditionOf(d.State, workerv1.ConditionBlocked))
}

// While the growth of b was pending, a shrank, and both went wrong: the replica comes back first, the growth is taken back next.
func TestRestoreGoesBeforeRollback(t *testing.T) {
	s := removed()
	s.State.PendingCohort = &workerv1.PendingCohort{BaselineVector: workerv1.Vector{"a": 5, "b": 1}, TargetVector: workerv1.Vector{"a": 5, "b": 2},
		StartedAt: metav1.NewTime(noon.Add(-time.Hour))}
	s.State.LastScaleDown.PreScaleDownVector = workerv1.Vector{"a": 5, "b": 2}
	s.instance("b", 1, func(i *target.Instance) { i.Admission, i.Ready = target.AdmissionPending, false })
	d := Plan(s.Input)
	require.Equal(t, map[string]int32{"a": 5, "b": 2}, vectorOf(d))
	require.Equal(t, fence.CommitRestore, d.Commit.Kind)

	s.Target.Retirement = nil
	d = Plan(s.Input)
	require.Equal(t, map[string]int32{"a": 3, "b": 1}, vectorOf(d))
	require.Equal(t, fence.CommitRollback, d.Commit.Kind)
}

func TestSettleOfGrowth(t *testing.T) {
	s := with(named("a", observe.Server, 4), named("b", observe.Decode, 4)).queue("a", 60).queue("b", 40)
	d := Plan(s.Input)
	at := noon.Add(300 * time.Millisecond)
	settled := d.Settle(Outcome{Written: true, Generation: 8, At: at})
	rounded := noon.Add(time.Second)
	require.Equal(t, &workerv1.CommitStatus{DecisionID: "abcdefgh-4.1.up", Term: 2, Vector: workerv1.Vector{"a": 6, "b": 4},
		BaselineVector: workerv1.Vector{"a": 4, "b": 4}, Timestamp: metav1.NewTime(rounded), TargetGeneration: 8}, settled.LastCommit)
	require.Equal(t, &workerv1.PendingCohort{DecisionID: "abcdefgh-4.1.up", Term: 2, BaselineVector: workerv1.Vector{"a": 4, "b": 4},
		TargetVector: workerv1.Vector{"a": 6, "b": 4}, StartedAt: metav1.NewTime(rounded)}, settled.PendingCohort)
	require.Equal(t, int32(6), settled.role("a").Current)
	require.Equal(t, rounded, settled.role("a").LastScaleUpTime, "whole seconds, rounded up: no guard ends early after a restart")
	require.Zero(t, settled.role("b").LastScaleUpTime)
	require.Equal(t, int32(4), d.State.role("a").Current, "the decision itself is left alone")
	require.Contains(t, d.Commit.Why, "a from 4 to 6 (Proportional recommends 6)")
}
