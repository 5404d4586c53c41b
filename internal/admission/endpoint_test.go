package admission

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"

	"gpustack.ai/model-deployment-scaler/internal/target"
)

const review = `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"`

func TestWhatIsNoReviewGetsAnErrorAndNeverAnAllowance(t *testing.T) {
	for name, test := range map[string]struct {
		contentType, body string
		code              int
	}{
		"an empty body":                {"application/json", ``, http.StatusBadRequest},
		"garbage":                      {"application/json", `{{{`, http.StatusBadRequest},
		"null":                         {"application/json", `null`, http.StatusBadRequest},
		"a list":                       {"application/json", `[]`, http.StatusBadRequest},
		"something after the review":   {"application/json", review + `, "request": {"uid": "u"}} {}`, http.StatusBadRequest},
		"no request":                   {"application/json", review + `}`, http.StatusBadRequest},
		"a null request":               {"application/json", review + `, "request": null}`, http.StatusBadRequest},
		"a request without a UID":      {"application/json", review + `, "request": {"operation": "UPDATE"}}`, http.StatusBadRequest},
		"a review of v1beta1":          {"application/json", `{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {"uid": "u"}}`, http.StatusBadRequest},
		"another kind":                 {"application/json", `{"apiVersion": "admission.k8s.io/v1", "kind": "Pod", "request": {"uid": "u"}}`, http.StatusBadRequest},
		"the wrong content type":       {"text/plain", review + `, "request": {"uid": "u"}}`, http.StatusUnsupportedMediaType},
		"no content type":              {"", review + `, "request": {"uid": "u"}}`, http.StatusUnsupportedMediaType},
		"two content types":            {"application/json, text/plain", review + `, "request": {"uid": "u"}}`, http.StatusUnsupportedMediaType},
		"a body over the limit":        {"application/json", review + `, "x": "` + strings.Repeat("a", maxBody) + `"}`, http.StatusRequestEntityTooLarge},
		"a charset is no other format": {"application/json; charset=utf-8", review + `}`, http.StatusBadRequest},
	} {
		for _, path := range []string{MutateScalerPath, ValidateScalerPath, FencePath} {
			t.Run(name+" at "+path, func(t *testing.T) {
				f := newFixture(cluster{})
				answer := f.post(path, test.contentType, []byte(test.body))
				require.Equal(t, test.code, answer.Code)
				require.NotContains(t, answer.Body.String(), "allowed")
				require.InDelta(t, 1, f.counted(t, path[1:], "other", outcomeBadRequest), 0)
			})
		}
	}
}

func TestOtherMethodsAndPathsAreNotServed(t *testing.T) {
	f := newFixture(cluster{})
	get := httptest.NewRecorder()
	f.handler.ServeHTTP(get, httptest.NewRequest(http.MethodGet, FencePath, nil))
	require.Equal(t, http.StatusMethodNotAllowed, get.Code)
	require.Equal(t, http.StatusNotFound, f.post("/", "application/json", nil).Code)
	require.Equal(t, http.StatusNotFound, f.post(FencePath+"/x", "application/json", nil).Code)
}

func TestAPanicBecomesARefusal(t *testing.T) {
	f := newFixture(cluster{target: func(string, string) (*target.Deployment, error) { panic("a defect") }})
	response := f.send(t, ValidateScalerPath, request(admissionv1.Create, "ModelDeploymentScaler", queueDepth(""), ""))
	require.False(t, response.Allowed)
	require.Equal(t, int32(http.StatusInternalServerError), response.Result.Code)
	require.InDelta(t, 1, f.counted(t, ValidateScalerPath[1:], "CREATE", outcomePanic), 0)

	again := f.send(t, FencePath, request(admissionv1.Update, target.Kind, bare(2), bare(1)))
	require.True(t, again.Allowed, "the next request is served as ever")
}

func TestEveryPathRefusesKindsItIsNotFor(t *testing.T) {
	f := newFixture(cluster{})
	for path, kind := range map[string]string{MutateScalerPath: target.Kind, ValidateScalerPath: target.Kind, FencePath: "ModelDeploymentScaler"} {
		response := f.send(t, path, request(admissionv1.Update, kind, `{"kind": "X"}`, `{"kind": "X"}`))
		require.False(t, response.Allowed, path)
		require.Equal(t, int32(http.StatusBadRequest), response.Result.Code)
		require.Contains(t, response.Result.Message, kind)
	}
}

func TestTheDeadlineIsUnderTheAPIServersPatience(t *testing.T) {
	for query, want := range map[string]time.Duration{
		"":              maxTime,
		"?timeout=2s":   1600 * time.Millisecond,
		"?timeout=30s":  maxTime,
		"?timeout=-1s":  maxTime,
		"?timeout=soon": maxTime,
	} {
		require.Equal(t, want, deadline(httptest.NewRequest(http.MethodPost, FencePath+query, nil)), query)
	}
}
