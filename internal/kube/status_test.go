package kube

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

// fullStatus has something in every corner of the status.
func fullStatus() workerv1.ModelDeploymentScalerStatus {
	now := metav1.NewTime(time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC))
	quantity := func(s string) *resource.Quantity { q := resource.MustParse(s); return &q }
	vector := workerv1.Vector{"prefill": 3, "decode": 2}
	return workerv1.ModelDeploymentScalerStatus{
		ObservedGeneration: 1,
		Binding:            &workerv1.BindingStatus{TargetUID: "uid", TargetName: "md", Term: 2},
		Roles: []workerv1.RoleStatus{{
			Name: "prefill", CurrentReplicas: 3, ReadyReplicas: 2, SignalState: "Fresh", PromptTokensPerSecond: quantity("12.5"),
			RawRecommendedReplicas: 4, ConstrainedReplicas: 3, Reason: "Panic", LastScaleUpTime: &now, PanicUntil: &now,
			StabilizationHistory: []workerv1.Recommendation{{Timestamp: now, Replicas: 4}},
		}},
		LastCommit:    &workerv1.CommitStatus{DecisionID: "0a1b2c3d-4.7.up", Term: 2, Vector: vector, BaselineVector: vector, Timestamp: now, TargetGeneration: 5},
		PendingCohort: &workerv1.PendingCohort{DecisionID: "0a1b2c3d-4.7.up", Term: 2, BaselineVector: vector, TargetVector: vector, StartedAt: now},
		Rebalance:     &workerv1.RebalanceStatus{ReceiverRole: "prefill", DonorRole: "decode", StartedAt: &now, Reason: "DonorRelease"},
		LastScaleDown: &workerv1.ScaleDownStatus{Role: "decode", Ordinal: 2, PreScaleDownVector: vector, Outcome: workerv1.ScaleDownCommitted},
		Exhaustion:    &workerv1.ExhaustionStatus{Roles: []string{"prefill"}, Attempts: 1, BlockedUntil: now, Increment: workerv1.Vector{"prefill": 1}},
		Predictors: []workerv1.PredictorStatus{{Name: "prefill", SampleCount: 3,
			History: []workerv1.Demand{{Timestamp: now, TokensPerSecond: resource.MustParse("12.5")}}}},
		Conditions: []metav1.Condition{{Type: workerv1.ConditionBound, Status: metav1.ConditionTrue, Reason: "Bound", Message: "m", LastTransitionTime: now}},
	}
}

func TestAStatusComesBackAsItWasWrittenAndLosesWhatIsDropped(t *testing.T) {
	w := newWorld(t)
	s, status := w.scaler("s", "md"), fullStatus()

	written, err := w.writer().WriteStatus(t.Context(), s, status)
	require.NoError(t, err)
	require.Equal(t, jsonOf(t, status), jsonOf(t, written.Status))
	require.Equal(t, s.Generation, written.Generation)

	status.PendingCohort, status.Exhaustion = nil, nil
	written, err = w.writer().WriteStatus(t.Context(), written, status)
	require.NoError(t, err)
	require.Nil(t, written.Status.PendingCohort)
	require.Nil(t, written.Status.Exhaustion)
	require.Equal(t, jsonOf(t, status), jsonOf(t, written.Status))
}

func TestTheSameStatusAgainIsNoNewVersion(t *testing.T) {
	w := newWorld(t)
	first, err := w.writer().WriteStatus(t.Context(), w.scaler("s", "md"), fullStatus())
	require.NoError(t, err)
	second, err := w.writer().WriteStatus(t.Context(), first, fullStatus())
	require.NoError(t, err)
	require.Equal(t, first.ResourceVersion, second.ResourceVersion)
}

func TestAReportAboutAnOlderOrAnotherScalerIsRefused(t *testing.T) {
	w := newWorld(t)
	s := w.scaler("s", "md")
	_, err := w.writer().WriteStatus(t.Context(), s, fullStatus())
	require.NoError(t, err)

	_, err = w.writer().WriteStatus(t.Context(), s, workerv1.ModelDeploymentScalerStatus{ObservedGeneration: 9})
	require.True(t, apierrors.IsConflict(err), "%v", err)

	require.NoError(t, w.client.Scalers(w.namespace).Delete(t.Context(), "s", metav1.DeleteOptions{}))
	_, err = w.writer().WriteStatus(t.Context(), s, fullStatus())
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	w.scaler("s", "md")
	_, err = w.writer().WriteStatus(t.Context(), s, fullStatus())
	require.True(t, apierrors.IsConflict(err), "%v", err)
}

func TestTheFinalizerComesAndGoesBesideOthers(t *testing.T) {
	w := newWorld(t)
	s := w.scaler("s", "md")
	s, err := w.writer().setFinalizers(t.Context(), s, []string{"example.com/other"})
	require.NoError(t, err)

	s, err = w.writer().AddFinalizer(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, []string{"example.com/other", Finalizer}, s.Finalizers)
	again, err := w.writer().AddFinalizer(t.Context(), s)
	require.NoError(t, err)
	require.Nil(t, again)

	require.NoError(t, w.client.Scalers(w.namespace).Delete(t.Context(), "s", metav1.DeleteOptions{}))
	deleting, err := w.client.Scalers(w.namespace).Get(t.Context(), "s", metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, w.writer().RemoveFinalizer(t.Context(), deleting))
	rest, err := w.client.Scalers(w.namespace).Get(t.Context(), "s", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{"example.com/other"}, rest.Finalizers)
}

func TestRemovingTheFinalizerOfAScalerThatIsGoneIsNoError(t *testing.T) {
	w := newWorld(t)
	s, err := w.writer().AddFinalizer(t.Context(), w.scaler("s", "md"))
	require.NoError(t, err)
	require.NoError(t, w.writer().RemoveFinalizer(t.Context(), s))
	require.NoError(t, w.client.Scalers(w.namespace).Delete(t.Context(), "s", metav1.DeleteOptions{}))
	require.NoError(t, w.writer().RemoveFinalizer(t.Context(), s))
}
