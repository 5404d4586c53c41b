package kube

import (
	"fmt"
	"net/http"
	"sync/atomic"
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

// small refuses statuses over a size, as an API server or its etcd does.
type small struct {
	http.RoundTripper
	limit, code int
	refused     atomic.Int64
}

func (s *small) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPatch || r.ContentLength <= int64(s.limit) {
		return s.RoundTripper.RoundTrip(r)
	}
	s.refused.Add(1)
	return &http.Response{StatusCode: s.code, Header: http.Header{"Content-Type": {"text/plain"}}, Body: http.NoBody, Request: r}, nil
}

func TestAStatusThatIsTooLargeLosesTheOlderHalvesOfItsHistories(t *testing.T) {
	for _, code := range []int{http.StatusRequestEntityTooLarge, http.StatusInternalServerError} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			w := newWorld(t)
			s, status := w.scaler("s", "md"), fullStatus()
			for role := range 16 {
				full := status.Roles[0]
				full.Name, full.StabilizationHistory = fmt.Sprint("role-", role), nil
				for i := range 256 {
					at := metav1.NewTime(time.Date(2026, 11, 30, 6, 0, 5*i, 0, time.UTC))
					full.StabilizationHistory = append(full.StabilizationHistory, workerv1.Recommendation{Timestamp: at, Replicas: int32(i + 1)})
				}
				status.Roles = append(status.Roles, full)
			}
			strict := &small{limit: 150 << 10, code: code}
			config := w.cluster.Config(t)
			config.Wrap(func(rt http.RoundTripper) http.RoundTripper { strict.RoundTripper = rt; return strict })
			client, err := NewClient(t.Context(), config, "")
			require.NoError(t, err)
			written, err := NewWriter(client, alwaysHeld{}, testEpoch).WriteStatus(t.Context(), s, status)
			require.NoError(t, err)
			kept := written.Status.Roles[1].StabilizationHistory
			require.Len(t, kept, 128)
			require.Equal(t, int32(256), kept[127].Replicas, "the newest stay")
			require.Equal(t, jsonOf(t, status.PendingCohort), jsonOf(t, written.Status.PendingCohort))
			require.Len(t, status.Roles[1].StabilizationHistory, 256, "the caller's stay whole")
			require.EqualValues(t, 1, strict.refused.Load())

			strict.limit = 0
			_, err = NewWriter(client, alwaysHeld{}, testEpoch).WriteStatus(t.Context(), written, status)
			require.Error(t, err)
			require.Less(t, strict.refused.Load(), int64(6), "it gives up")
		})
	}
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
