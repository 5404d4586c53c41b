package decider

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/decide"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/kube"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

func TestConditionsThatTurnBadAreEvents(t *testing.T) {
	is := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "m"}
	}
	waiting := is(workerv1.ConditionMetricsReady, metav1.ConditionFalse, workerv1.ReasonWaitingForMetrics)
	observed := is(workerv1.ConditionMetricsReady, metav1.ConditionTrue, workerv1.ReasonObserved)
	for name, c := range map[string]struct {
		before, after []metav1.Condition
		want          []string
	}{
		"readings were lost":                 {[]metav1.Condition{observed}, []metav1.Condition{waiting}, []string{workerv1.ReasonWaitingForMetrics}},
		"readings are still lost":            {[]metav1.Condition{waiting}, []metav1.Condition{waiting}, nil},
		"readings are still to come":         {nil, []metav1.Condition{waiting}, nil},
		"readings are back":                  {[]metav1.Condition{waiting}, []metav1.Condition{observed}, nil},
		"pacing is everyday":                 {nil, []metav1.Condition{is(workerv1.ConditionBlocked, metav1.ConditionTrue, workerv1.ReasonPacingBounded)}, nil},
		"suspension was asked for":           {nil, []metav1.Condition{is(workerv1.ConditionBound, metav1.ConditionFalse, workerv1.ReasonSuspended)}, nil},
		"the target is somebody else's":      {nil, []metav1.Condition{is(workerv1.ConditionBound, metav1.ConditionFalse, workerv1.ReasonAlreadyBound)}, []string{workerv1.ReasonAlreadyBound}},
		"Active only says what Bound does":   {nil, []metav1.Condition{is(workerv1.ConditionActive, metav1.ConditionFalse, workerv1.ReasonAlreadyBound)}, nil},
		"it is bad for another reason":       {[]metav1.Condition{is(workerv1.ConditionBlocked, metav1.ConditionTrue, workerv1.ReasonPacingBounded)}, []metav1.Condition{is(workerv1.ConditionBlocked, metav1.ConditionTrue, workerv1.ReasonResourceExhausted)}, []string{workerv1.ReasonResourceExhausted}},
		"nothing stands in the way any more": {[]metav1.Condition{is(workerv1.ConditionBlocked, metav1.ConditionTrue, workerv1.ReasonResourceExhausted)}, []metav1.Condition{is(workerv1.ConditionBlocked, metav1.ConditionFalse, workerv1.ReasonReady)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var reasons []string
			for _, event := range worsened(c.before, c.after) {
				require.True(t, event.Warning)
				reasons = append(reasons, event.Reason)
			}
			require.Equal(t, c.want, reasons)
		})
	}
}

func TestEveryKindOfCommitHasItsEvent(t *testing.T) {
	v := &view{name: testScaler, in: decide.Input{Target: &target.Snapshot{Deployment: target.Deployment{Name: "md"}}}}
	for _, kind := range []fence.CommitKind{fence.CommitUp, fence.CommitDown, fence.CommitRollback, fence.CommitRestore, fence.CommitDonate, fence.CommitAcquire} {
		d := decide.Decision{Commit: &decide.Commit{Kind: kind, Why: "because"}}
		events := writeEvents(v, d)
		require.Len(t, events, 1)
		require.NotEmpty(t, events[0].Reason)
		require.Equal(t, "because", events[0].Note)
		require.Equal(t, kind == fence.CommitRollback || kind == fence.CommitRestore, events[0].Warning)
		require.Equal(t, []string{string(kind)}, kindsOf(d))
	}
}

func TestARefusalIsToldApartFromAFailure(t *testing.T) {
	group := schema.GroupResource{Resource: target.Resource}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"it was written":             {nil, outcomeDone},
		"the webhook refused":        {apierrors.NewForbidden(group, "md", errors.New("no")), outcomeDenied},
		"our own check refused":      {&fence.Refusal{}, outcomeWithheld},
		"the target has moved on":    {apierrors.NewConflict(group, "md", errors.New("no")), outcomeFailed},
		"the lease was lost":         {kube.ErrLeaseLost, outcomeFailed},
		"the webhook did not answer": {apierrors.NewInternalError(errors.New("no")), outcomeFailed},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, outcomeOf(c.err)) })
	}
}
