package admission

import (
	"encoding/json"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// Whatever body arrives: no panic, and what is allowed is a whole request about an object of the kind that the path judges. The
// path that fills in defaults judges nothing: what it cannot read it must leave as it is.
func FuzzReview(f *testing.F) {
	for _, kind := range []string{target.Kind, workerv1.Kind} {
		for _, object := range []string{bound(3), bare(1), queueDepth(""), `null`, `{"kind": "X"}`} {
			body, err := json.Marshal(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
				"request": request(admissionv1.Update, kind, object, bound(2))})
			require.NoError(f, err)
			f.Add(body)
		}
	}
	f.Add([]byte(review + `, "request": {"uid": "u", "operation": "CREATE", "kind": {"kind": "Scale"}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		fixture := newFixture(cluster{target: noTarget, scaler: living, epoch: leading})
		for path, kind := range map[string]string{MutateScalerPath: workerv1.Kind, ValidateScalerPath: workerv1.Kind, FencePath: target.Kind} {
			answer := fixture.post(path, "application/json", body)
			if answer.Code != http.StatusOK {
				require.NotContains(t, answer.Body.String(), `"allowed"`)
				continue
			}
			requireSound(t, path, kind, body, answer.Body.Bytes())
		}
	})
}

// requireSound: the answer is about the request, and allowed only what can be read.
func requireSound(t *testing.T, path, kind string, body, answer []byte) {
	t.Helper()
	var asked, answered admissionv1.AdmissionReview
	require.NoError(t, json.Unmarshal(body, &asked))
	require.NoError(t, json.Unmarshal(answer, &answered))
	require.Equal(t, asked.Request.UID, answered.Response.UID)
	if !answered.Response.Allowed {
		require.NotEmpty(t, answered.Response.Result.Message)
		require.NotEqual(t, int32(http.StatusInternalServerError), answered.Response.Result.Code, "a panic")
		return
	}
	require.Equal(t, target.GroupName, asked.Request.Kind.Group)
	require.Equal(t, kind, asked.Request.Kind.Kind)
	var object map[string]any
	readable := json.Unmarshal(asked.Request.Object.Raw, &object) == nil && len(object) > 0
	if path == MutateScalerPath {
		require.True(t, readable || answered.Response.Patch == nil)
		return
	}
	require.True(t, readable)
	require.Contains(t, []admissionv1.Operation{admissionv1.Create, admissionv1.Update}, asked.Request.Operation)
}

// Whatever stands in the annotations of a bound deployment's next version, nothing that changes what is owned is allowed.
func FuzzAnnotation(f *testing.F) {
	f.Add(owner, "x")
	f.Add("", "")
	f.Add(`{"scalerUID":"u1","scalerName":"s1","term":1}`, `{"decisionID":"0a1b2c3d-2.1.up","term":1,"vector":{"server":2}}`)
	f.Fuzz(func(t *testing.T, binding, decision string) {
		for _, user := range []string{"jane", decider} {
			r := request(admissionv1.Update, target.Kind, annotated(t, binding, decision), annotated(t, owner, "x"))
			r.UserInfo.Username = user
			v := fencer{cluster{scaler: living, epoch: leading}, decider}.judge(t.Context(), r)
			require.Equal(t, binding == owner && decision == "x", v.response.Allowed, "by %s", user)
		}
	})
}

// annotated is a bound deployment with these very bytes in its annotations, as JSON can carry them.
func annotated(t *testing.T, binding, decision string) string {
	t.Helper()
	annotations, err := json.Marshal(map[string]string{fence.BindingAnnotation: binding, fence.DecisionAnnotation: decision})
	require.NoError(t, err)
	return `{"kind": ` + strconv.Quote(target.Kind) + `, "metadata": {"uid": "d1", "annotations": ` + string(annotations) + `}, "spec": {"roles": [{"name": "server"}]}}`
}

// Whatever arrives as the object, nothing that changes a bound deployment's counts is allowed, and nothing panics.
func FuzzFence(f *testing.F) {
	f.Add([]byte(bound(3)))
	f.Add([]byte(bare(1)))
	f.Add([]byte(`{"kind": "ModelDeployment", "metadata": {"annotations": {"modeldeployment.gpustack.ai/scaler-binding": 1}}}`))
	f.Add([]byte(`{"kind": "ModelDeployment", "spec": {"roles": [{"name": "server", "replicas": 2}, {"name": "server"}]}}`))
	f.Fuzz(func(t *testing.T, object []byte) {
		judge := fencer{cluster{scaler: func(string, string) (*fence.Scaler, error) { return nil, errDown }}, decider}.judge
		v := judge(t.Context(), request(admissionv1.Update, target.Kind, string(object), bound(2)))
		if !v.response.Allowed {
			return
		}
		is, err := readDeployment(object)
		require.NoError(t, err)
		require.Equal(t, map[string]int32{"server": 2}, is.Counts())
		require.Contains(t, is.Annotations, fence.BindingAnnotation)
	})
}
