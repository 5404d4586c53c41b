package webhook

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// sameSentences holds the golden file of package admission, which comes from the API server's code without the API server,
// against a real one: so people read there, and of the plugin's validate, what they would read in the cluster.
func sameSentences(t *testing.T, w *world) {
	golden, err := os.ReadFile("../admission/testdata/messages.txt")
	require.NoError(t, err)
	body, err := os.ReadFile("../admission/testdata/schema.yaml")
	require.NoError(t, err)
	var cases struct {
		Base  json.RawMessage `json:"base"`
		Edits []struct {
			Title, Path string
			Value       json.RawMessage
		} `json:"edits"`
	}
	require.NoError(t, yaml.UnmarshalStrict(body, &cases))
	scalers := w.user.scalers("v1", w.namespace)
	object := func(operations string) *unstructured.Unstructured {
		patch, err := jsonpatch.DecodePatch([]byte(operations))
		require.NoError(t, err)
		edited, err := patch.Apply(cases.Base)
		require.NoError(t, err)
		u := &unstructured.Unstructured{}
		require.NoError(t, u.UnmarshalJSON(edited))
		u.SetNamespace(w.namespace)
		return u
	}
	says := func(title string, err error) {
		var status apierrors.APIStatus
		require.ErrorAs(t, err, &status, title)
		require.Contains(t, string(golden), fmt.Sprintf("\n[%s]\n%s\n", title, status.Status().Message))
	}
	for _, c := range cases.Edits {
		operations := fmt.Sprintf(`[{"op": "add", "path": %q, "value": %s}]`, c.Path, c.Value)
		if c.Value == nil {
			operations = fmt.Sprintf(`[{"op": "remove", "path": %q}]`, c.Path)
		}
		_, err := scalers.Create(t.Context(), object(operations), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		says(c.Title, err)
	}
	create(t, scalers, object(`[]`))
	says("another target", merge(t, scalers, "s1", `{"spec": {"targetRef": {"name": "m2"}}}`))
	require.NoError(t, scalers.Delete(t.Context(), "s1", metav1.DeleteOptions{}))
}

// readsLive: a scaler that comes right after its target is judged against it, every time (user report: a cache lagged behind).
func readsLive(t *testing.T, w *world) {
	deployments, scalers := w.user.deployments("v1", w.namespace), w.user.scalers("v1", w.namespace)
	for i := range 20 {
		name := fmt.Sprintf("live-%d", i)
		unmanaged := deployment(name, 1, "", "")
		role := unmanaged.Object["spec"].(map[string]any)["roles"].([]any)[0].(map[string]any)
		says := "sets its own command"
		if role["command"] = []any{"serve"}; i%2 == 1 {
			delete(role, "command")
			role["elasticEp"], says = map[string]any{"width": int64(2)}, "sets elasticEp"
		}
		create(t, deployments, unmanaged)
		_, err := scalers.Create(t.Context(), policy(name, name), metav1.CreateOptions{})
		require.True(t, apierrors.IsInvalid(err), "%v", err)
		require.ErrorContains(t, err, says)
		require.NoError(t, deployments.Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
}

// lettingGoWorks: what a target has become does not keep its scaler from being suspended, nor from being deleted (user report:
// finalizers hung, because objects under deletion were validated).
func lettingGoWorks(t *testing.T, w *world) {
	deployments, scalers := w.user.deployments("v1", w.namespace), w.user.scalers("v1", w.namespace)
	finalized := policy("s5", "m5")
	finalized.SetFinalizers([]string{"example.com/x"})
	create(t, scalers, finalized)
	unmanaged := deployment("m5", 1, "", "")
	unmanaged.Object["spec"].(map[string]any)["roles"].([]any)[0].(map[string]any)["command"] = []any{"serve"}
	create(t, deployments, unmanaged)

	require.True(t, apierrors.IsInvalid(merge(t, scalers, "s5", `{"spec": {"mode": "Active"}}`)))
	require.NoError(t, merge(t, scalers, "s5", `{"spec": {"suspend": true}}`))
	require.True(t, apierrors.IsInvalid(merge(t, scalers, "s5", `{"spec": {"suspend": false}}`)))
	require.NoError(t, scalers.Delete(t.Context(), "s5", metav1.DeleteOptions{}))
	require.NoError(t, merge(t, scalers, "s5", `{"metadata": {"finalizers": null}}`))
	_, err := scalers.Get(t.Context(), "s5", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	require.NoError(t, deployments.Delete(t.Context(), "m5", metav1.DeleteOptions{}))
}
