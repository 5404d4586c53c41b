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

// shrinking is a role of four replicas that would lose one in this pass.
func shrinking(kind observe.RoleKind) *setting {
	return with(named("server", kind, 4)).queue("server", 10).remembering("server", 1)
}

func TestGuardsOfShrinking(t *testing.T) {
	stamped := func(at time.Time) *metav1.Time { s := metav1.NewTime(at); return &s }
	aborted := func(end time.Time) *workerv1.ScaleDownStatus {
		return &workerv1.ScaleDownStatus{Role: "server", Outcome: workerv1.ScaleDownAborted, AbortedAt: stamped(noon.Add(-time.Minute)), CooldownUntil: stamped(end)}
	}
	tests := []struct {
		name   string
		kind   observe.RoleKind
		change func(*setting)
		rule   string // empty: it shrinks
	}{
		{"nothing stands in the way", observe.Server, func(*setting) {}, ""},
		{"coverage is incomplete", observe.Server, func(s *setting) {
			s.observe("server", func(o *observe.RoleObservation) { o.Coverage.Answered = 3 })
		}, RuleDownWindow}, // the history takes the current count, so the window is first to stop it
		{"a retirement runs somewhere", observe.Server, func(s *setting) {
			s.Target.Retirement = &target.Retirement{Role: "other", Ordinal: 3, State: target.RetirementSettling}
		}, RuleRetirement},
		{"a retirement in a state that nobody knows", observe.Server, func(s *setting) {
			s.Target.Retirement = &target.Retirement{State: "Pondering"}
		}, RuleRetirement},
		{"an aborted retirement of somebody else's is over", observe.Server, func(s *setting) {
			s.Target.Retirement = &target.Retirement{Role: "server", Ordinal: 3, State: target.RetirementAborted}
		}, ""},
		{"a removed replica is still there", observe.Server, func(s *setting) {
			s.Target.Instances = append(s.Target.Instances, target.Instance{Role: "server", Ordinal: 4})
		}, RuleRetirement},
		{"a cooldown runs", observe.Server, func(s *setting) { s.State.LastScaleDown = aborted(noon.Add(time.Second)) }, RuleCooldown},
		{"a cooldown is over at its end", observe.Server, func(s *setting) { s.State.LastScaleDown = aborted(noon) }, ""},
		{"a decode role has just grown", observe.Decode, func(s *setting) {
			s.State.Roles[0].LastScaleUpTime = noon.Add(-119 * time.Second)
		}, RuleDecodeGrace},
		{"the grace is over at its end", observe.Decode, func(s *setting) {
			s.State.Roles[0].LastScaleUpTime = noon.Add(-120 * time.Second)
		}, ""},
		{"another kind has no grace", observe.Prefill, func(s *setting) { s.State.Roles[0].LastScaleUpTime = noon }, ""},
		{"its own growth is pending", observe.Server, func(s *setting) {
			s.pending(workerv1.Vector{"server": 2}, workerv1.Vector{"server": 4}, noon.Add(-time.Minute))
			s.instance("server", 3, func(i *target.Instance) { i.Admission = target.AdmissionPending })
		}, RuleOwnCohort},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := shrinking(tt.kind)
			tt.change(s)
			d := Plan(s.Input)
			if tt.rule == "" {
				require.Equal(t, map[string]int32{"server": 3}, vectorOf(d), "%v", d.Trace)
				require.Equal(t, fence.CommitDown, d.Commit.Kind)
				return
			}
			require.Nil(t, d.Commit)
			requireCount(t, 4, d, "server")
			require.Equal(t, tt.rule, rules(d, "server")[len(rules(d, "server"))-1])
		})
	}
}

// Each guard alone stops a shrink, whatever the stages before it think of the count.
func TestEveryGuardOfShrinkingForbidsByItself(t *testing.T) {
	clear := func() (*pass, *role) {
		p := newPass(shrinking(observe.Decode).Input)
		return p, p.roles[0]
	}
	p, r := clear()
	_, rule := shrinkGuards(p, r)
	require.Empty(t, rule)

	tests := map[string]func(*pass, *role){
		RuleNotReady:      func(_ *pass, r *role) { r.ready = 0 },
		RuleAlgorithmHold: func(_ *pass, r *role) { r.hold = ReasonPanic },
		RuleCoverage:      func(_ *pass, r *role) { r.partial = true },
		RuleYoungWindows:  func(_ *pass, r *role) { r.young = true },
		RuleRetirement:    func(p *pass, _ *role) { p.target.Retirement = &target.Retirement{State: target.RetirementDraining} },
		RuleCooldown: func(p *pass, _ *role) {
			end := metav1.NewTime(noon.Add(time.Minute))
			p.state.LastScaleDown = &workerv1.ScaleDownStatus{CooldownUntil: &end}
		},
		RuleDecodeGrace: func(_ *pass, r *role) { r.next.LastScaleUpTime = noon },
		RuleOwnCohort: func(p *pass, _ *role) {
			p.state.PendingCohort = &workerv1.PendingCohort{BaselineVector: workerv1.Vector{"server": 3}, TargetVector: workerv1.Vector{"server": 4}}
		},
	}
	require.Len(t, tests, len(shrinkForbidden))
	for want, arrange := range tests {
		t.Run(want, func(t *testing.T) {
			p, r := clear()
			arrange(p, r)
			least, rule := shrinkGuards(p, r)
			require.Equal(t, want, rule)
			require.Equal(t, r.Replicas, least)
		})
	}
}

func TestGuardsOfGrowth(t *testing.T) {
	exhausted := func(until time.Time, attempts int32) *workerv1.ExhaustionStatus {
		return &workerv1.ExhaustionStatus{Roles: []string{"server"}, Attempts: attempts, BlockedUntil: metav1.NewTime(until),
			Increment: workerv1.Vector{"server": 3}}
	}
	tests := []struct {
		name   string
		change func(*setting)
		want   int32
		rule   string
		reason string
	}{
		{"nothing stands in the way", func(*setting) {}, 8, "", ReasonProportional},
		{"a replica has lost its admission", func(s *setting) {
			s.instance("server", 1, func(i *target.Instance) { i.Admission = target.AdmissionPending })
		}, 4, RuleUnadmitted, ReasonPacingBounded},
		{"a replica does not exist yet", func(s *setting) { s.Target.Instances = s.Target.Instances[1:] }, 4, RuleUnadmitted, ReasonPacingBounded},
		{"a cohort is pending", func(s *setting) {
			s.pending(workerv1.Vector{"server": 3}, workerv1.Vector{"server": 4}, noon.Add(-time.Minute))
			s.instance("server", 3, func(i *target.Instance) { i.Admission = target.AdmissionPending })
		}, 4, RuleCohort, ReasonResourceExhausted},
		{"a cohort that is admitted is closed and growth goes on", func(s *setting) {
			s.pending(workerv1.Vector{"server": 3}, workerv1.Vector{"server": 4}, noon.Add(-time.Minute))
		}, 8, "", ReasonProportional},
		{"the role was refused not long ago", func(s *setting) { s.State.Exhaustion = exhausted(noon.Add(time.Second), 1) }, 4, RuleExhausted, ReasonResourceExhausted},
		{"the first retry may ask for all again", func(s *setting) { s.State.Exhaustion = exhausted(noon, 1) }, 8, "", ReasonProportional},
		{"the second asks for half, rounded up", func(s *setting) { s.State.Exhaustion = exhausted(noon, 2) }, 6, RuleSmallerRetry, ReasonResourceExhausted},
		{"another role was refused", func(s *setting) {
			s.State.Exhaustion = &workerv1.ExhaustionStatus{Roles: []string{"other"}, Attempts: 1, BlockedUntil: metav1.NewTime(noon.Add(time.Minute))}
		}, 8, "", ReasonProportional},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := with(server(4)).queue("server", 80)
			tt.change(s)
			d := Plan(s.Input)
			requireCount(t, tt.want, d, "server")
			require.Equal(t, tt.reason, d.State.role("server").Reason)
			if tt.rule != "" {
				require.Equal(t, []string{tt.rule}, rules(d, "server"))
			}
		})
	}
}

func TestPartialCoverageJustifiesGrowthOnly(t *testing.T) {
	s := with(server(4)).remembering("server", 1)
	s.observe("server", func(o *observe.RoleObservation) { o.Running, o.Coverage.Answered = observe.Known(60), 2 })
	d := Plan(s.Input)
	require.Equal(t, map[string]int32{"server": 6}, vectorOf(d), "60 over 10, divided among all")
	require.Equal(t, "False/WaitingForMetrics", conditionOf(d.State, workerv1.ConditionMetricsReady))
}
