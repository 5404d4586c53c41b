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

// refused is a taker with two replicas that wants three and was refused a minute ago, beside a giver with three that wants two.
func refused() *setting {
	s := with(named("taker", observe.Prefill, 2), named("giver", observe.Decode, 3)).queue("taker", 30).queue("giver", 20)
	s.committed(fence.CommitRollback, nil, workerv1.Vector{"taker": 2, "giver": 3}, noon.Add(-time.Minute))
	s.State.Exhaustion = &workerv1.ExhaustionStatus{Roles: []string{"taker"}, Attempts: 1, BlockedUntil: metav1.NewTime(noon.Add(4 * time.Minute)),
		Increment: workerv1.Vector{"taker": 1}}
	s.State.Rebalance = &workerv1.RebalanceStatus{Reason: StepResourceExhausted, ExhaustionEpisodeGeneration: 7}
	return s
}

func TestDonation(t *testing.T) {
	priority := func(names ...string) func(*setting) {
		return func(s *setting) {
			s.Scaler.Spec.Rebalance = workerv1.Rebalance{Policy: workerv1.RebalancePriority, Priority: names}
		}
	}
	holding := func(s *setting) { s.queue("giver", 30) }
	both := func(changes ...func(*setting)) func(*setting) {
		return func(s *setting) {
			for _, change := range changes {
				change(s)
			}
		}
	}
	tests := []struct {
		name   string
		change func(*setting)
		reason string // of the record; DonorRelease: the giver's replica goes
	}{
		{"a role that wants to shrink gives", func(*setting) {}, StepDonorRelease},
		{"whatever its window says", func(s *setting) { s.remembering("giver", 9) }, StepDonorRelease},
		{"a role that holds does not", holding, StepNotApplicable},
		{"unless priority says so", both(holding, priority("taker", "giver")), StepDonorRelease},
		{"but not one that wants to grow", both(func(s *setting) {
			s.queue("giver", 60)
			s.Scaler.Spec.Behavior.ScaleUp.StabilizationWindowSeconds = 60
			s.remembering("taker", 3)
		}, priority("taker", "giver")), StepNotApplicable},
		{"nor one before the receiver", both(holding, priority("giver", "taker")), StepNotApplicable},
		{"nor one that is not listed", both(holding, priority("taker")), StepNotApplicable},
		{"nobody gives to a role that is not listed", priority("giver"), StepNotApplicable},
		{"another pool cannot help", func(s *setting) { s.Target.Roles[1].InstanceType = "h100" }, StepNotApplicable},
		{"no pool is no common pool", func(s *setting) { s.Target.Roles[0].InstanceType, s.Target.Roles[1].InstanceType = "", "" }, StepNotApplicable},
		{"a role at its floor gives nothing", func(s *setting) { s.Scaler.Spec.Roles[1].MinReplicas = 3 }, StepNotApplicable},
		{"a step policy of zero binds", func(s *setting) {
			s.Scaler.Spec.Behavior.ScaleDown.StepPolicy = &workerv1.StepPolicy{Type: workerv1.StepPods}
		}, StepNotApplicable},
		{"a retirement binds", func(s *setting) { s.Target.Retirement = &target.Retirement{State: target.RetirementDraining} }, StepNotApplicable},
		{"a cooldown binds", func(s *setting) {
			start, end := metav1.NewTime(noon), metav1.NewTime(noon.Add(time.Minute))
			s.State.LastScaleDown = &workerv1.ScaleDownStatus{AbortedAt: &start, CooldownUntil: &end}
		}, StepNotApplicable},
		{"a grace binds", func(s *setting) { s.State.role("giver").LastScaleUpTime = noon }, StepNotApplicable},
		{"incomplete coverage binds", func(s *setting) {
			s.observe("giver", func(o *observe.RoleObservation) { o.Coverage.Answered = 2 })
		}, StepNotApplicable},
		{"the donor's step must be legal", func(s *setting) {
			s.Scaler.Spec.Ratios = []workerv1.Ratio{{NumeratorRole: "taker", DenominatorRole: "giver", Max: quantityOf("0.9")}}
		}, StepBlocked},
		{"the receiver's step too", func(s *setting) {
			s.Scaler.Spec.Ratios = []workerv1.Ratio{{NumeratorRole: "taker", DenominatorRole: "giver", Max: quantityOf("1.4")}}
		}, StepBlocked},
		{"once in an episode", func(s *setting) { s.State.Rebalance.DonationAttempted = true }, StepBlocked},
		{"not when the policy is Disabled", func(s *setting) { s.Scaler.Spec.Rebalance.Policy = workerv1.RebalanceDisabled }, StepResourceExhausted},
		{"not when the need is gone", func(s *setting) { s.queue("taker", 20) }, StepResourceExhausted},
		{"not when the receiver may grow by itself again", func(s *setting) { s.State.Exhaustion.BlockedUntil = metav1.NewTime(noon) }, StepResourceExhausted},
		{"not without an episode", func(s *setting) { s.State.Exhaustion = nil }, StepResourceExhausted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := refused()
			tt.change(s)
			d := Plan(s.Input)
			if tt.reason == StepDonorRelease {
				require.Equal(t, map[string]int32{"taker": 2, "giver": 2}, vectorOf(d))
				require.Equal(t, fence.CommitDonate, d.Commit.Kind)
				require.False(t, d.State.Rebalance.DonationAttempted, "until it is written")
				settled := d.Settle(Outcome{Written: true, Generation: 8, At: noon})
				started := metav1.NewTime(noon)
				require.Equal(t, &workerv1.RebalanceStatus{Reason: StepDonorRelease, DonorRole: "giver", ReceiverRole: "taker", DonorTargetReplicas: 2,
					ReceiverTargetReplicas: 3, StartedAt: &started, ExhaustionEpisodeGeneration: 7, DonationAttempted: true}, settled.Rebalance)
				require.Equal(t, int32(2), settled.LastScaleDown.Ordinal)
				return
			}
			if d.Commit != nil {
				require.NotEqual(t, fence.CommitDonate, d.Commit.Kind)
			}
			if d.State.Rebalance != nil {
				require.Equal(t, tt.reason, d.State.Rebalance.Reason)
			}
			if tt.reason != StepResourceExhausted && !cooldownRuns(newPass(s.Input), nil) { // a cooldown is reported first
				require.Equal(t, "True/"+tt.reason, conditionOf(d.State, workerv1.ConditionBlocked))
			}
		})
	}
}

func TestEventsOfATransferNameIt(t *testing.T) {
	require.Equal(t, "donate: giver from 3 to 2 (Proportional recommends 2, Rebalance decides)", Plan(refused().Input).Commit.Why,
		"the window that holds the giver back did not decide")
	require.Equal(t, "acquire: taker from 2 to 3 (Proportional recommends 3, Rebalance decides)", Plan(leaving().Input).Commit.Why,
		"the refusal that holds the taker back did not decide")
}

func TestDonorsAreTakenInTheOrderOfPriority(t *testing.T) {
	s := with(named("a", observe.Server, 3), named("b", observe.Server, 3), named("c", observe.Server, 3), named("d", observe.Server, 3))
	for _, name := range []string{"a", "b", "c", "d"} {
		s.queue(name, 30)
	}
	s.queue("c", 40)
	s.State.Exhaustion = &workerv1.ExhaustionStatus{Roles: []string{"c"}, Attempts: 1, BlockedUntil: metav1.NewTime(noon.Add(time.Minute))}
	s.Scaler.Spec.Rebalance = workerv1.Rebalance{Policy: workerv1.RebalancePriority, Priority: []string{"d", "c", "b", "a"}}
	require.Equal(t, map[string]int32{"a": 3, "b": 2, "c": 3, "d": 3}, vectorOf(Plan(s.Input)))
	s.Scaler.Spec.Roles[1].MinReplicas = 3
	require.Equal(t, map[string]int32{"a": 2, "b": 3, "c": 3, "d": 3}, vectorOf(Plan(s.Input)))
}

func TestGrowthOfOthersGoesBeforeADonation(t *testing.T) {
	s := refused()
	s.Target.Roles = append(s.Target.Roles, named("third", observe.Server, 1))
	s.ready("third", 0, 1).observe("third", func(o *observe.RoleObservation) { o.Running = observe.Known(20) })
	s.Scaler.Spec.Roles = append(s.Scaler.Spec.Roles, workerv1.RoleBounds{Name: "third", MaxReplicas: 4})
	targets := &s.Scaler.Spec.Algorithm.Proportional.RoleTargets
	*targets = append(*targets, workerv1.RoleTarget{Name: "third", Target: *quantityOf("10")})
	require.Equal(t, fence.CommitUp, Plan(s.Input).Commit.Kind)
}

// leaving is a transfer whose donor has given its replica, which is gone.
func leaving() *setting {
	s := refused()
	started := metav1.NewTime(noon.Add(-time.Minute))
	s.Target.Roles[1].Replicas = 2
	s.instance("giver", 2, func(i *target.Instance) { i.Ordinal = 1 })
	s.Target.Instances = s.Target.Instances[:4]
	s.committed(fence.CommitDonate, workerv1.Vector{"taker": 2, "giver": 3}, workerv1.Vector{"taker": 2, "giver": 2}, noon.Add(-time.Minute))
	s.State.LastScaleDown = &workerv1.ScaleDownStatus{Role: "giver", Ordinal: 2, DecisionID: s.State.LastCommit.DecisionID, TargetGeneration: 7,
		PreScaleDownVector: workerv1.Vector{"taker": 2, "giver": 3}, Outcome: workerv1.ScaleDownCommitted}
	s.State.Rebalance = &workerv1.RebalanceStatus{Reason: StepDonorRelease, DonorRole: "giver", ReceiverRole: "taker", DonorTargetReplicas: 2,
		ReceiverTargetReplicas: 3, StartedAt: &started, ExhaustionEpisodeGeneration: 7, DonationAttempted: true}
	return s.observe("giver", func(o *observe.RoleObservation) {
		o.Coverage = observe.Coverage{ReadyReplicas: 2, Targets: 2, Answered: 2, Rated: 2}
	})
}

func TestReceiverAcquiresWhatTheDonorLeft(t *testing.T) {
	tests := []struct {
		name   string
		change func(*setting)
		want   map[string]int32 // nil: nothing moves
		reason string           // of the record afterwards
	}{
		{"when nothing of it is left", func(*setting) {}, map[string]int32{"taker": 3, "giver": 2}, StepReceiverAcquire},
		{"not while its Pod or Workload is there", func(s *setting) {
			s.Target.Instances = append(s.Target.Instances, target.Instance{Role: "giver", Ordinal: 2})
		}, nil, StepDonorRelease},
		{"not while it settles, however long that takes", func(s *setting) {
			started := metav1.NewTime(noon.Add(-24 * time.Hour))
			s.State.Rebalance.StartedAt = &started
			s.Target.Retirement = &target.Retirement{Role: "giver", Ordinal: 2, State: target.RetirementSettling}
		}, nil, StepDonorRelease},
		{"not behind a replica without admission", func(s *setting) {
			s.instance("taker", 1, func(i *target.Instance) { i.Admission = target.AdmissionPending })
		}, nil, StepDonorRelease},
		{"not while nobody knows what it wants", func(s *setting) { delete(s.Observations, "taker") }, nil, StepDonorRelease},
		{"nor ever, if that lasts", func(s *setting) {
			delete(s.Observations, "taker")
			started := metav1.NewTime(noon.Add(-5*time.Minute - 1))
			s.State.Rebalance.StartedAt = &started
		}, nil, StepDonationAttempted},
		{"not when it no longer wants to grow", func(s *setting) { s.queue("taker", 20) }, nil, StepDonationAttempted},
		{"not when the policy forbids it now", func(s *setting) { s.Scaler.Spec.Roles[0].MaxReplicas = 2 }, nil, StepBlocked},
		{"an aborted donation brings the replica back and cancels the transfer", func(s *setting) {
			s.Target.Retirement = &target.Retirement{Role: "giver", Ordinal: 2, State: target.RetirementAborted, ObservedGeneration: 7}
		}, map[string]int32{"taker": 2, "giver": 3}, StepDonationAttempted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := leaving()
			tt.change(s)
			d := Plan(s.Input)
			require.Equal(t, tt.want, vectorOf(d))
			settled := d.Settle(Outcome{Written: d.Commit != nil, Generation: 8, At: noon})
			require.Equal(t, tt.reason, settled.Rebalance.Reason)
			require.True(t, settled.Rebalance.DonationAttempted)
			require.Equal(t, tt.reason == StepReceiverAcquire, settled.PendingCohort != nil)
		})
	}
}

func TestRunningTransferFreezesEverythingElse(t *testing.T) {
	s := leaving()
	s.Target.Retirement = &target.Retirement{Role: "giver", Ordinal: 2, State: target.RetirementDraining}
	s.State.Exhaustion.BlockedUntil = metav1.NewTime(noon)
	s.queue("giver", 90)
	d := Plan(s.Input)
	require.Nil(t, d.Commit)
	require.Equal(t, []string{RuleStep, RuleRebalance}, rules(d, "giver"))
	require.Equal(t, "True/PacingBounded", conditionOf(d.State, workerv1.ConditionBlocked))
}

// acquiring is a transfer whose receiver waits for the admission of its third replica.
func acquiring(since time.Duration) *setting {
	s := leaving()
	s.Target.Roles[0].Replicas = 3
	s.Target.Instances = append(s.Target.Instances, target.Instance{Role: "taker", Ordinal: 2, Admission: target.AdmissionPending})
	s.pending(workerv1.Vector{"taker": 2, "giver": 2}, workerv1.Vector{"taker": 3, "giver": 2}, noon.Add(-since))
	s.State.Rebalance.Reason = StepReceiverAcquire
	return s
}

func TestTransferEndsWithTheReceiversCohort(t *testing.T) {
	t.Run("admitted, and with it the episode", func(t *testing.T) {
		s := acquiring(time.Minute)
		s.instance("taker", 2, func(i *target.Instance) { i.Admission = target.AdmissionGranted })
		d := Plan(s.Input)
		require.Nil(t, d.State.Rebalance)
		require.Nil(t, d.State.Exhaustion)
		require.Nil(t, d.State.PendingCohort)
	})
	t.Run("waiting", func(t *testing.T) {
		d := Plan(acquiring(time.Minute).Input)
		require.Nil(t, d.Commit)
		require.Equal(t, StepReceiverAcquire, d.State.Rebalance.Reason)
	})
	t.Run("timed out, and taken back", func(t *testing.T) {
		d := Plan(acquiring(time.Hour).Input)
		require.Equal(t, fence.CommitRollback, d.Commit.Kind)
		require.Equal(t, map[string]int32{"taker": 2, "giver": 2}, vectorOf(d))
		require.Equal(t, "True/RebalanceBlocked", conditionOf(d.State, workerv1.ConditionBlocked))
		settled := d.Settle(Outcome{Written: true, Generation: 8, At: noon})
		require.Equal(t, StepBlocked, settled.Rebalance.Reason)
		require.True(t, settled.Rebalance.DonationAttempted)
		require.Equal(t, int32(2), settled.Exhaustion.Attempts)
	})
	t.Run("lost, and noticed", func(t *testing.T) {
		s := acquiring(time.Minute)
		s.State.PendingCohort = nil
		require.Equal(t, StepDonationAttempted, Plan(s.Input).State.Rebalance.Reason)
	})
}
