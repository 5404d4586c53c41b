package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

const decider = "system:serviceaccount:model-deployment-scaler:decider"

var errDown = errors.New("connection refused")

// cluster answers from memory; a nil function is a read that the test does not expect.
type cluster struct {
	target func(namespace, name string) (*target.Deployment, error)
	scaler func(namespace, name string) (*fence.Scaler, error)
	epoch  func() (fence.Epoch, error)
}

func (c cluster) Target(_ context.Context, namespace, name string) (*target.Deployment, error) {
	return c.target(namespace, name)
}

func (c cluster) Scaler(_ context.Context, namespace, name string) (*fence.Scaler, error) {
	return c.scaler(namespace, name)
}

func (c cluster) Epoch(context.Context) (fence.Epoch, error) { return c.epoch() }

func noTarget(string, string) (*target.Deployment, error) { return nil, nil }

// fixture is a handler with its metrics.
type fixture struct {
	handler  http.Handler
	registry *prometheus.Registry
}

func newFixture(c cluster) fixture {
	registry := prometheus.NewRegistry()
	return fixture{New(Options{DeciderUser: decider, Cluster: c, Log: zap.NewNop(), Registerer: registry}), registry}
}

// request is an admission request as the API server sends it.
func request(operation admissionv1.Operation, kind, object, old string) *admissionv1.AdmissionRequest {
	group := metav1.GroupVersionKind{Group: target.GroupName, Version: "v1", Kind: kind}
	return &admissionv1.AdmissionRequest{
		UID: "705ab4f5-6393-11e8-b7cc-42010a800002", Kind: group, RequestKind: &group,
		Namespace: "ns", Name: "m1", Operation: operation,
		UserInfo:  authenticationv1.UserInfo{Username: "jane", Groups: []string{"system:masters"}},
		Object:    runtime.RawExtension{Raw: []byte(object)},
		OldObject: runtime.RawExtension{Raw: []byte(old)},
	}
}

// send posts the request as a review and returns the answer.
func (f fixture) send(t *testing.T, path string, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	review := admissionv1.AdmissionReview{Request: r}
	review.APIVersion, review.Kind = "admission.k8s.io/v1", "AdmissionReview"
	for _, raw := range []*runtime.RawExtension{&r.Object, &r.OldObject} {
		if len(raw.Raw) == 0 {
			raw.Raw = []byte("null")
		}
	}
	body, err := json.Marshal(review)
	require.NoError(t, err)
	answer := f.post(path, "application/json", body)
	require.Equal(t, http.StatusOK, answer.Code, answer.Body.String())
	require.Equal(t, "application/json", answer.Header().Get("Content-Type"))
	var got admissionv1.AdmissionReview
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &got))
	require.Equal(t, "admission.k8s.io/v1", got.APIVersion)
	require.Nil(t, got.Request)
	require.NotNil(t, got.Response)
	require.Equal(t, r.UID, got.Response.UID)
	if !got.Response.Allowed {
		require.NotEmpty(t, got.Response.Result.Message, "a refusal explains itself")
		require.GreaterOrEqual(t, got.Response.Result.Code, int32(400))
		require.Equal(t, metav1.StatusFailure, got.Response.Result.Status)
	}
	return got.Response
}

func (f fixture) post(path, contentType string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path+"?timeout=5s", bytes.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	answer := httptest.NewRecorder()
	f.handler.ServeHTTP(answer, r)
	return answer
}

func (f fixture) counted(t *testing.T, webhook, operation, outcome string) float64 {
	t.Helper()
	families, err := f.registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() != "mds_webhook_requests_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["webhook"] == webhook && labels["operation"] == operation && labels["outcome"] == outcome {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func TestRequestsAndTheirTimeAreCountedByWebhookOperationAndOutcome(t *testing.T) {
	f := newFixture(cluster{})
	f.send(t, FencePath, request(admissionv1.Update, target.Kind, bare(2), bare(1)))
	f.send(t, FencePath, request(admissionv1.Update, target.Kind, bound(2), bound(1)))
	f.send(t, FencePath, request(admissionv1.Create, target.Kind, bound(2), ""))
	f.send(t, MutateScalerPath, request(admissionv1.Create, "ModelDeploymentScaler", queueDepth(""), ""))
	f.post(FencePath, "text/plain", nil)
	require.NoError(t, testutil.GatherAndCompare(f.registry, strings.NewReader(`
# HELP mds_webhook_requests_total Admission requests by webhook, operation and outcome: Allowed, or the reason of the refusal.
# TYPE mds_webhook_requests_total counter
mds_webhook_requests_total{operation="CREATE",outcome="Allowed",webhook="mutate-modeldeploymentscaler"} 1
mds_webhook_requests_total{operation="CREATE",outcome="CreatedWithOwner",webhook="validate-modeldeployment"} 1
mds_webhook_requests_total{operation="UPDATE",outcome="Allowed",webhook="validate-modeldeployment"} 1
mds_webhook_requests_total{operation="UPDATE",outcome="CountsOwned",webhook="validate-modeldeployment"} 1
mds_webhook_requests_total{operation="other",outcome="BadRequest",webhook="validate-modeldeployment"} 1
`), "mds_webhook_requests_total"))
	times, err := testutil.GatherAndCount(f.registry, "mds_webhook_request_duration_seconds")
	require.NoError(t, err)
	require.Equal(t, 5, times, "a histogram for each of them")
}

func TestMetricsFollowTheConventions(t *testing.T) {
	f := newFixture(cluster{target: noTarget})
	f.send(t, FencePath, request(admissionv1.Update, target.Kind, bare(2), bare(1)))
	problems, err := testutil.GatherAndLint(f.registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}
