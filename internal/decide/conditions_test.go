package decide

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

func TestTransitionTimeMovesWithTheStatusAlone(t *testing.T) {
	p := newPass(with(server(4)).Input)
	p.condition("Active", true, "Active", "one")
	first := *findCondition(p.state.Conditions, "Active")
	require.Equal(t, metav1.Condition{Type: "Active", Status: metav1.ConditionTrue, ObservedGeneration: 3, LastTransitionTime: metav1.NewTime(noon), Reason: "Active", Message: "one"}, first)

	p.now = noon.Add(time.Minute)
	p.in.Scaler.Generation = 4
	p.condition("Active", true, "Other", "two")
	second := *findCondition(p.state.Conditions, "Active")
	require.Equal(t, first.LastTransitionTime, second.LastTransitionTime)
	require.Equal(t, "Other", second.Reason)
	require.EqualValues(t, 4, second.ObservedGeneration)

	p.condition("Active", false, "Other", "two")
	require.Equal(t, noon.Add(time.Minute), findCondition(p.state.Conditions, "Active").LastTransitionTime.Time)
	require.Len(t, p.state.Conditions, 1)
}

func TestMessagesStayShortAndReadable(t *testing.T) {
	p := newPass(with(server(4)).Input)
	p.condition("Active", true, "Active", strings.Repeat("ä", 2000))
	message := p.state.Conditions[0].Message
	require.LessOrEqual(t, len(message), 1024)
	require.True(t, utf8.ValidString(message))
}

func TestEarlyExitsLeaveOlderConditionsAlone(t *testing.T) {
	s := with(server(4)).queue("server", 40)
	s.State = Plan(s.Input).State
	s.Scaler.Generation = 9
	s.Scaler.Spec.Suspend = true
	d := Plan(s.Input)
	require.EqualValues(t, 9, findCondition(d.State.Conditions, workerv1.ConditionBound).ObservedGeneration)
	require.EqualValues(t, 3, findCondition(d.State.Conditions, workerv1.ConditionMetricsReady).ObservedGeneration)
	require.EqualValues(t, 3, findCondition(d.State.Conditions, workerv1.ConditionBlocked).ObservedGeneration)
	require.EqualValues(t, 9, d.State.ObservedGeneration)
}

// blockedOrder is the order in which the reasons of Blocked go.
var blockedOrder = []string{workerv1.ReasonBoundsConflict, workerv1.ReasonRatioConflict, workerv1.ReasonScaleDownAborted,
	workerv1.ReasonRebalanceBlocked, workerv1.ReasonRebalanceNotApplicable, workerv1.ReasonResourceExhausted,
	workerv1.ReasonPacingBounded, workerv1.ReasonReady}

// Each obstacle is set up together with all that come after it: the first one is reported.
func TestBlockedNamesTheFirstObstacle(t *testing.T) {
	paced := func(s *setting) { s.queue("taker", 900) }
	exhausted := func(s *setting) {
		paced(s)
		s.State.Exhaustion = &workerv1.ExhaustionStatus{Roles: []string{"taker"}, Attempts: 1, BlockedUntil: metav1.NewTime(noon.Add(time.Minute))}
		s.Scaler.Spec.Rebalance.Policy = workerv1.RebalanceDisabled
	}
	notApplicable := func(s *setting) { exhausted(s); s.Scaler.Spec.Rebalance.Policy = workerv1.RebalanceOpposing }
	blocked := func(s *setting) {
		notApplicable(s)
		s.State.Rebalance = &workerv1.RebalanceStatus{DonationAttempted: true}
	}
	aborted := func(s *setting) {
		blocked(s)
		start, end := metav1.NewTime(noon), metav1.NewTime(noon.Add(time.Minute))
		s.State.LastScaleDown = &workerv1.ScaleDownStatus{Role: "taker", AbortedAt: &start, CooldownUntil: &end}
	}
	ratio := func(s *setting) {
		aborted(s)
		s.Scaler.Spec.Ratios = []workerv1.Ratio{{NumeratorRole: "taker", DenominatorRole: "other", Min: quantityOf("3")}}
	}
	bounds := func(s *setting) { ratio(s); s.Scaler.Spec.Roles[0].MaxReplicas = 1 }
	tests := []struct {
		change func(*setting)
		want   string
	}{
		{func(*setting) {}, "False/Ready"},
		{paced, "True/PacingBounded"},
		{exhausted, "True/ResourceExhausted"},
		{notApplicable, "True/RebalanceNotApplicable"},
		{blocked, "True/RebalanceBlocked"},
		{aborted, "True/ScaleDownAborted"},
		{ratio, "True/RatioConflict"},
		{bounds, "True/BoundsConflict"},
	}
	for i, tt := range tests {
		require.Equal(t, blockedOrder[len(tests)-1-i], strings.SplitAfter(tt.want, "/")[1])
		t.Run(tt.want, func(t *testing.T) {
			s := with(named("taker", observe.Server, 2), named("other", observe.Server, 2)).queue("taker", 20).queue("other", 20)
			tt.change(s)
			require.Equal(t, tt.want, conditionOf(Plan(s.Input).State, workerv1.ConditionBlocked))
		})
	}
}

func TestMetricsReadyNamesEveryRoleThatWaits(t *testing.T) {
	s := with(named("a", observe.Server, 2), named("b", observe.Server, 2), named("c", observe.Server, 2))
	delete(s.Observations, "a")
	s.observe("b", func(o *observe.RoleObservation) { o.Coverage.Answered = 1 })
	condition := findCondition(Plan(s.Input).State.Conditions, workerv1.ConditionMetricsReady)
	require.Equal(t, metav1.ConditionFalse, condition.Status)
	require.Equal(t, "role a: nothing was observed yet; role b: not every replica is in the readings", condition.Message)
}

func TestRoleReasonIsTheFirstConstraintThatChangedIt(t *testing.T) {
	tests := []struct {
		name string
		role role
		want string
	}{
		{"nothing", role{}, "Algorithm"},
		{"a window, before anything else", role{first: RuleUpWindow}, ReasonPacingBounded},
		{"bounds", role{first: RuleBounds}, ReasonPacingBounded},
		{"a guard", role{first: RuleUnadmitted}, ReasonPacingBounded},
		{"a cohort", role{first: RuleCohort}, ReasonResourceExhausted},
		{"a refusal", role{first: RuleExhausted}, ReasonResourceExhausted},
		{"the projection", role{first: RuleRatio}, ReasonRatioCoupled},
		{"a rollback", role{first: RuleRollback}, ReasonResourceExhausted},
		{"a restore", role{first: RuleRestore}, workerv1.ReasonScaleDownAborted},
		{"a conflict", role{first: workerv1.ReasonRatioConflict}, workerv1.ReasonRatioConflict},
		{"an algorithm's own hold keeps its name", role{first: RuleStep, recommendation: recommendation{hold: "Algorithm"}}, "Algorithm"},
		{"a hold that is not its reason does not", role{first: RuleStep, recommendation: recommendation{hold: ReasonLatencyGuardHold}}, ReasonPacingBounded},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := tt.role
			r.reason, r.raw, r.count = "Algorithm", 9, 4
			require.Equal(t, tt.want, r.finalReason())
		})
	}
	r := role{first: RuleStep, count: 4}
	r.reason, r.raw = "Algorithm", 4
	require.Equal(t, "Algorithm", r.finalReason(), "what came back to the recommendation was not changed")
}

func TestRoleReportsItsCountsAndReadings(t *testing.T) {
	s := with(server(4)).queue("server", 44)
	s.instance("server", 3, func(i *target.Instance) { i.Ready = false })
	got := Plan(s.Input).State.Status().Roles[0]
	require.EqualValues(t, 4, got.CurrentReplicas)
	require.EqualValues(t, 3, got.ReadyReplicas)
	require.EqualValues(t, 44, *got.RunningRequests)
	require.Nil(t, got.KVCacheUsage)
}
