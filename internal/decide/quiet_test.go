package decide

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

func TestStatusIsWrittenWhenSomethingMoved(t *testing.T) {
	type S = workerv1.ModelDeploymentScalerStatus
	later := metav1.NewTime(noon.Add(time.Minute))
	tests := []struct {
		name   string
		change func(*S)
		at     string // "once", "a minute" or "never"
	}{
		{"nothing", func(*S) {}, "never"},
		{"a rate", func(s *S) { s.Roles[0].PromptTokensPerSecond = quantityOf("1") }, "never"},
		{"a latency", func(s *S) { s.Roles[0].TTFTMilliseconds = nil }, "never"},
		{"a window", func(s *S) { s.Roles[0].StabilizationHistory = nil }, "never"},
		{"a predictor", func(s *S) { s.Predictors = nil }, "never"},
		{"the end of a running panic", func(s *S) { s.Roles[0].PanicUntil = &later }, "never"},
		{"the time of a condition", func(s *S) { s.Conditions[0].LastTransitionTime = later }, "never"},
		{"a condition's words", func(s *S) { s.Conditions[0].Message = "otherwise" }, "a minute"},
		{"a role's recommendation", func(s *S) { s.Roles[0].RawRecommendedReplicas++ }, "a minute"},
		{"a role's constrained count", func(s *S) { s.Roles[0].ConstrainedReplicas++ }, "a minute"},
		{"a role's signal state", func(s *S) { s.Roles[0].SignalState = "Idle" }, "a minute"},
		{"a role's reason", func(s *S) { s.Roles[0].Reason = ReasonPanic }, "a minute"},
		{"a panic that begins", func(s *S) { s.Roles[1].PanicUntil = &later }, "a minute"},
		{"a role's current count", func(s *S) { s.Roles[0].CurrentReplicas++ }, "once"},
		{"a role's ready count", func(s *S) { s.Roles[0].ReadyReplicas++ }, "once"},
		{"a role that appears", func(s *S) { s.Roles = append(s.Roles, workerv1.RoleStatus{Name: "c"}) }, "once"},
		{"a role that is another", func(s *S) { s.Roles[1].Name = "c" }, "once"},
		{"a condition's status", func(s *S) { s.Conditions[0].Status = metav1.ConditionFalse }, "once"},
		{"a condition's reason", func(s *S) { s.Conditions[0].Reason = workerv1.ReasonAlreadyBound }, "once"},
		{"a condition's generation", func(s *S) { s.Conditions[0].ObservedGeneration++ }, "once"},
		{"a condition that appears", func(s *S) { s.Conditions = append(s.Conditions, metav1.Condition{Type: "Active"}) }, "once"},
		{"a condition that is another", func(s *S) { s.Conditions[0].Type = "Active" }, "once"},
		{"the observed generation", func(s *S) { s.ObservedGeneration++ }, "once"},
		{"the binding", func(s *S) { s.Binding.Term++ }, "once"},
		{"a commit", func(s *S) { s.LastCommit.DecisionID = "x-1.2.up" }, "once"},
		{"a cohort that is closed", func(s *S) { s.PendingCohort = nil }, "once"},
		{"a removal", func(s *S) { s.LastScaleDown.Ordinal++ }, "once"},
		{"a transfer", func(s *S) { s.Rebalance.Reason = StepReceiverAcquire }, "once"},
		{"an episode", func(s *S) { s.Exhaustion.Attempts++ }, "once"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			prev, next := full().Status(), full().Status()
			tt.change(&next)
			require.Equal(t, tt.at == "once", NeedsWrite(prev, next, time.Minute-1))
			require.Equal(t, tt.at != "never", NeedsWrite(prev, next, time.Minute))
		})
	}
}
