package decide

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

const foreign = `{"scalerName":"other","scalerUID":"scaler-9","term":5}`

func TestWhoMayPlanATarget(t *testing.T) {
	shadow := func(s *setting) { s.Scaler.Spec.Mode = workerv1.ModeShadow }
	tests := []struct {
		name          string
		change        func(*setting)
		bound, active string // conditions
		release       bool
		plans         bool
		hold          string // part of the sentence
	}{
		{"the owner plans", func(*setting) {}, "True/Bound", "True/Active", false, true, ""},
		{"without a target it waits", func(s *setting) { s.Target = nil }, "False/TargetNotFound", "False/TargetNotFound", false, false, "does not exist"},
		{"a target that is being deleted is as good as gone", func(s *setting) { s.Target.Deleting = true },
			"False/TargetNotFound", "False/TargetNotFound", false, false, "being deleted"},
		{"suspended it gives its binding up", func(s *setting) { s.Scaler.Spec.Suspend = true },
			"False/Suspended", "False/Suspended", true, false, "spec.suspend"},
		{"suspended it leaves another's binding alone", func(s *setting) { s.Scaler.Spec.Suspend = true; s.bound(foreign) },
			"False/Suspended", "False/Suspended", false, false, "spec.suspend"},
		{"a binding that cannot be read stops planning", func(s *setting) { s.bound("garbage") },
			"False/InvalidBinding", "False/InvalidBinding", false, false, "cannot be read"},
		{"also in Shadow", func(s *setting) { shadow(s); s.bound(`{"scalerName":"llm"}`) },
			"False/InvalidBinding", "False/InvalidBinding", false, false, "fix or remove it"},
		{"another scaler's binding stays", func(s *setting) { s.bound(foreign) },
			"False/AlreadyBound", "False/AlreadyBound", false, false, "bound by scaler other"},
		{"Shadow watches an unbound target", func(s *setting) { shadow(s); s.bound("") }, "True/Bound", "False/ShadowMode", false, true, ""},
		{"Shadow watches another's target", func(s *setting) { shadow(s); s.bound(foreign) }, "False/AlreadyBound", "False/ShadowMode", false, true, ""},
		{"Shadow gives its binding up and plans", shadow, "True/Bound", "False/ShadowMode", true, true, ""},
		{"a scaler that is being deleted gives its binding up", func(s *setting) { s.Scaler.Deleting = true }, "", "", true, false, "being deleted"},
		{"and has nothing to give up when it is another's", func(s *setting) { s.Scaler.Deleting = true; s.bound(foreign) }, "", "", false, false, "being deleted"},
		{"nor when it cannot be read", func(s *setting) { s.Scaler.Deleting = true; s.bound("garbage") }, "", "", false, false, "being deleted"},
		{"another target of the same name stops planning", func(s *setting) { s.Target.UID = "target-2" },
			"False/TargetReplaced", "False/TargetReplaced", false, false, "edit this scaler's spec"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := with(server(4)).queue("server", 60)
			tt.change(s)
			d := Plan(s.Input)
			require.Equal(t, tt.bound, conditionOf(d.State, workerv1.ConditionBound))
			require.Equal(t, tt.active, conditionOf(d.State, workerv1.ConditionActive))
			require.Equal(t, tt.release, d.Release)
			require.Nil(t, d.Bind)
			if tt.plans {
				require.Empty(t, d.Hold)
				require.Equal(t, int32(6), d.State.role("server").Constrained)
			} else {
				require.Contains(t, d.Hold, tt.hold)
				require.Nil(t, d.Commit)
			}
			if s.Scaler.Spec.Mode == workerv1.ModeShadow {
				require.Nil(t, d.Commit, "Shadow never writes counts")
			}
		})
	}
}

func TestFirstBindingMayCommitInTheSameWrite(t *testing.T) {
	s := with(server(4)).queue("server", 60).bound("")
	s.State = State{}
	d := Plan(s.Input)
	require.Equal(t, &fence.Binding{ScalerName: "llm", ScalerUID: "scaler-1", Term: 1}, d.Bind)
	require.Equal(t, map[string]int32{"server": 6}, vectorOf(d))
	require.Equal(t, int64(1), d.Commit.Decision.Term)
	require.Equal(t, "abcdefgh-4.1.up", d.Commit.Decision.DecisionID)
	require.Empty(t, conditionOf(d.State, workerv1.ConditionBound), "nothing is bound before it is written")
	require.Zero(t, d.State.Binding.Term)

	require.Equal(t, d.State, d.Settle(Outcome{}))
	settled := d.Settle(Outcome{Written: true, Generation: 8, At: noon})
	require.Equal(t, Binding{TargetUID: "target-1", TargetName: "llm", Term: 1}, settled.Binding)
	require.Equal(t, "True/Bound", conditionOf(settled, workerv1.ConditionBound))
	require.Equal(t, "True/Active", conditionOf(settled, workerv1.ConditionActive))
}

func TestTermOfANewBindingIsOverEveryKnownOne(t *testing.T) {
	tests := []struct {
		name     string
		status   int64
		leftOver string
		want     int64
	}{
		{"the first term is one", 0, "", 1},
		{"one over the status", 4, "", 5},
		{"one over a left-over decision", 4, fence.Decision{DecisionID: "zzz-1.1.up", Term: 9, Vector: map[string]int32{"server": 4}}.String(), 10},
		{"a decision that cannot be read has no term", 4, "garbage", 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := with(server(4)).bound("")
			s.State.Binding.Term = tt.status
			if tt.leftOver != "" {
				s.Target.Annotations[fence.DecisionAnnotation] = tt.leftOver
			}
			require.Equal(t, tt.want, Plan(s.Input).Bind.Term)
		})
	}
}

func TestSequenceGrowsOverStatusAndTarget(t *testing.T) {
	s := with(server(4)).queue("server", 60)
	s.committed(fence.CommitUp, nil, workerv1.Vector{"server": 4}, noon)
	s.Epoch.Transitions = 5
	require.Equal(t, "abcdefgh-5.9.up", Plan(s.Input).Commit.Decision.DecisionID)
}

func TestReplacedTargetWaitsForAnEdit(t *testing.T) {
	s := with(server(4)).queue("server", 60).bound("")
	s.pending(workerv1.Vector{"server": 2}, workerv1.Vector{"server": 4}, noon)
	s.State.LastScaleDown = &workerv1.ScaleDownStatus{Role: "server"}
	s.State.Exhaustion = &workerv1.ExhaustionStatus{Roles: []string{"server"}}
	s.remembering("server", 1)
	s.Target.UID, s.Target.Generation = "target-2", 1
	delete(s.Target.Annotations, fence.DecisionAnnotation)

	d := Plan(s.Input)
	require.Equal(t, "False/TargetReplaced", conditionOf(d.State, workerv1.ConditionBound))
	require.NotNil(t, d.State.PendingCohort, "everything is kept until the edit")
	require.Equal(t, "target-1", d.State.Binding.TargetUID)

	s.State = d.State
	require.Equal(t, "False/TargetReplaced", conditionOf(Plan(s.Input).State, workerv1.ConditionBound), "time alone acknowledges nothing")

	s.Scaler.Generation++
	d = Plan(s.Input)
	require.Empty(t, d.Hold)
	require.Equal(t, int64(3), d.Bind.Term)
	require.Equal(t, map[string]int32{"server": 6}, vectorOf(d))
	require.Equal(t, "abcdefgh-4.9.up", d.Commit.Decision.DecisionID, "the sequence goes on")
	require.Nil(t, d.State.PendingCohort)
	require.Nil(t, d.State.LastScaleDown)
	require.Nil(t, d.State.Exhaustion)
	require.Len(t, d.State.role("server").History, 1)
	settled := d.Settle(Outcome{Written: true, Generation: 2, At: noon})
	require.Equal(t, Binding{TargetUID: "target-2", TargetName: "llm", Term: 3}, settled.Binding)
	require.Equal(t, "True/Bound", conditionOf(settled, workerv1.ConditionBound))
}

func TestReplacementInTheSamePassAsAnEditIsNotAcknowledged(t *testing.T) {
	s := with(server(4)).bound("")
	s.Target.UID = "target-2"
	s.Scaler.Generation = 9
	require.Equal(t, "False/TargetReplaced", conditionOf(Plan(s.Input).State, workerv1.ConditionBound))
}

func TestOwnWritesComeIntoViewFirst(t *testing.T) {
	s := with(server(4)).queue("server", 60)
	s.committed(fence.CommitUp, workerv1.Vector{"server": 3}, workerv1.Vector{"server": 4}, noon)
	s.State.LastCommit.TargetGeneration = 8
	s.Live = false
	d := Plan(s.Input)
	require.True(t, d.Reread)
	require.Nil(t, d.Commit)
	require.Contains(t, d.Hold, "generation 8")

	s.Live = true // restored from a backup
	d = Plan(s.Input)
	require.NotNil(t, d.Commit)
	require.Equal(t, int64(7), d.State.LastCommit.TargetGeneration)

	s.Live, s.Target.Generation = false, 8
	require.NotNil(t, Plan(s.Input).Commit)
}

func TestUnknownDecisionIsAdopted(t *testing.T) {
	decision := func(kind fence.CommitKind, term int64, vector map[string]int32) string {
		return fence.Decision{DecisionID: fence.DecisionID{Epoch: "abcdefgh-3", Sequence: 12, Kind: kind}.String(), Term: term, Vector: vector}.String()
	}
	arrange := func(kind fence.CommitKind, from, to int32) *setting {
		s := with(server(to)).queue("server", 90)
		s.State.Roles[0].Current = from
		s.Target.Annotations[fence.DecisionAnnotation] = decision(kind, 2, map[string]int32{"server": to})
		return s
	}
	t.Run("a cached view asks for a live one", func(t *testing.T) {
		s := arrange(fence.CommitUp, 3, 5)
		s.Live = false
		d := Plan(s.Input)
		require.True(t, d.Reread)
		require.Nil(t, d.State.LastCommit)
	})
	t.Run("growth becomes the pending cohort", func(t *testing.T) {
		d := Plan(arrange(fence.CommitUp, 3, 5).Input)
		require.Nil(t, d.Commit, "its status is stored before anything else is written")
		require.Contains(t, d.Hold, "taken over")
		require.Equal(t, "up: server from 3 to 5 (decision abcdefgh-3.12.up of an earlier leader)", d.Adopted.Why)
		require.Equal(t, workerv1.Vector{"server": 3}, d.State.PendingCohort.BaselineVector)
		require.Equal(t, workerv1.Vector{"server": 5}, d.State.PendingCohort.TargetVector)
		require.True(t, d.State.PendingCohort.StartedAt.Time.Equal(noon), "its timers start when it is first seen")
		require.Equal(t, noon, d.State.role("server").LastScaleUpTime)
		require.Equal(t, int32(5), d.State.role("server").Current)
		require.Equal(t, "abcdefgh-3.12.up", d.State.LastCommit.DecisionID)
		require.Equal(t, int64(7), d.State.LastCommit.TargetGeneration)
	})
	t.Run("a count that was reported did not move since", func(t *testing.T) {
		require.Equal(t, "up: no count since the last report (decision abcdefgh-3.12.up of an earlier leader)", Plan(arrange(fence.CommitUp, 5, 5).Input).Adopted.Why)
	})
	t.Run("shrinking becomes the last scale-down", func(t *testing.T) {
		d := Plan(arrange(fence.CommitDown, 5, 3).Input)
		require.Nil(t, d.State.PendingCohort)
		require.Equal(t, int32(4), d.State.LastScaleDown.Ordinal)
		require.Equal(t, workerv1.ScaleDownCommitted, d.State.LastScaleDown.Outcome)
	})
	t.Run("a rollback begins the exhaustion episode", func(t *testing.T) {
		s := arrange(fence.CommitRollback, 5, 3)
		s.State.PendingCohort = &workerv1.PendingCohort{BaselineVector: workerv1.Vector{"server": 3}, TargetVector: workerv1.Vector{"server": 5}}
		d := Plan(s.Input)
		require.Nil(t, d.State.PendingCohort)
		require.Equal(t, []string{"server"}, d.State.Exhaustion.Roles)
		require.Equal(t, workerv1.Vector{"server": 2}, d.State.Exhaustion.Increment)
		require.Equal(t, StepResourceExhausted, d.State.Rebalance.Reason)
	})
	t.Run("a restore begins the cooldown", func(t *testing.T) {
		s := arrange(fence.CommitRestore, 3, 4)
		s.State.LastScaleDown = &workerv1.ScaleDownStatus{Role: "server", Ordinal: 3, Outcome: workerv1.ScaleDownCommitted}
		d := Plan(s.Input)
		require.Equal(t, workerv1.ScaleDownAborted, d.State.LastScaleDown.Outcome)
		require.NotNil(t, d.State.LastScaleDown.CooldownUntil)
	})
	t.Run("a donation becomes the running transfer", func(t *testing.T) {
		s := with(named("taker", observe.Server, 2), named("giver", observe.Server, 2))
		s.State.Roles[1].Current = 3
		s.State.Exhaustion = &workerv1.ExhaustionStatus{Roles: []string{"taker"}}
		s.Target.Annotations[fence.DecisionAnnotation] = decision(fence.CommitDonate, 2, map[string]int32{"taker": 2, "giver": 2})
		b := Plan(s.Input).State.Rebalance
		require.Equal(t, StepDonorRelease, b.Reason)
		require.Equal(t, "giver", b.DonorRole)
		require.Equal(t, "taker", b.ReceiverRole)
		require.True(t, b.DonationAttempted)
	})
	t.Run("growth after a transfer proves that it was over", func(t *testing.T) {
		s := arrange(fence.CommitUp, 3, 5)
		s.State.Rebalance = &workerv1.RebalanceStatus{Reason: StepReceiverAcquire, DonationAttempted: true}
		require.Equal(t, StepDonationAttempted, Plan(s.Input).State.Rebalance.Reason)
		s.State.PendingCohort = &workerv1.PendingCohort{}
		require.Nil(t, Plan(s.Input).State.Rebalance, "with its cohort admitted")
	})
	t.Run("one of an earlier binding is left alone", func(t *testing.T) {
		s := with(server(4)).queue("server", 60)
		s.Target.Annotations[fence.DecisionAnnotation] = decision(fence.CommitUp, 1, map[string]int32{"server": 4})
		require.NotNil(t, Plan(s.Input).Commit)
	})
	t.Run("one that cannot be read is replaced", func(t *testing.T) {
		s := with(server(4)).queue("server", 60)
		s.Target.Annotations[fence.DecisionAnnotation] = "garbage"
		require.NotNil(t, Plan(s.Input).Commit)
	})
}

func TestReleaseDropsWhatOnlyTheOwnerMayFinish(t *testing.T) {
	s := with(server(4))
	s.pending(workerv1.Vector{"server": 2}, workerv1.Vector{"server": 4}, noon.Add(-time.Hour))
	s.State.LastScaleDown = &workerv1.ScaleDownStatus{Role: "server", Outcome: workerv1.ScaleDownCommitted}
	s.State.Rebalance = &workerv1.RebalanceStatus{Reason: StepDonorRelease}
	s.instance("server", 3, func(i *target.Instance) { i.Admission = target.AdmissionPending })
	s.Scaler.Spec.Suspend = true
	d := Plan(s.Input)
	require.True(t, d.Release)
	require.Nil(t, d.Commit, "nothing is rolled back by a scaler that gives up its binding")
	require.NotNil(t, d.State.PendingCohort)
	settled := d.Settle(Outcome{Written: true, Generation: 7, At: noon})
	require.Nil(t, settled.PendingCohort)
	require.Nil(t, settled.LastScaleDown)
	require.Nil(t, settled.Rebalance)
	require.NotNil(t, settled.LastCommit)
	require.Equal(t, int64(2), settled.Binding.Term, "the term is remembered")

	s.State.LastScaleDown = &workerv1.ScaleDownStatus{Role: "server", Outcome: workerv1.ScaleDownAborted}
	require.NotNil(t, Plan(s.Input).Settle(Outcome{Written: true}).LastScaleDown, "a cooldown outlives the binding")
	s.bound("")
	require.Nil(t, Plan(s.Input).State.PendingCohort, "a binding that is gone already leaves nothing to finish")
}
