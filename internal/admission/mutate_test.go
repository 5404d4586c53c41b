package admission

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
)

// scalerObject renders a scaler with that spec.
func scalerObject(spec string) string {
	return `{"apiVersion": "worker.gpustack.ai/v1", "kind": "ModelDeploymentScaler", "metadata": {"namespace": "ns", "name": "s1"}, "spec": ` + spec + `}`
}

// queueDepth is a small policy; more is spliced into the spec.
func queueDepth(more string) string {
	return scalerObject(`{"targetRef": {"name": "m1"}, "roles": [{"name": "server", "maxReplicas": 4}], ` + more +
		`"algorithm": {"proportional": {"metric": "QueueDepth", "roleTargets": [{"name": "server", "target": "8"}]}}}`)
}

// mutated sends the object and returns it patched, and the paths that were patched.
func mutated(t *testing.T, object string) (string, []string) {
	t.Helper()
	response := newFixture(cluster{}).send(t, MutateScalerPath, request(admissionv1.Create, "ModelDeploymentScaler", object, ""))
	require.True(t, response.Allowed)
	if response.Patch == nil {
		require.Nil(t, response.PatchType)
		return object, nil
	}
	require.Equal(t, admissionv1.PatchTypeJSONPatch, *response.PatchType)
	patch, err := jsonpatch.DecodePatch(response.Patch)
	require.NoError(t, err)
	after, err := patch.Apply([]byte(object))
	require.NoError(t, err)
	var operations []addition
	require.NoError(t, json.Unmarshal(response.Patch, &operations))
	var paths []string
	for _, o := range operations {
		require.Equal(t, "add", o.Op)
		paths = append(paths, o.Path)
	}
	return string(after), paths
}

func TestDefaultsAreStoredAndOnlyThose(t *testing.T) {
	behaving := func(behavior string) string {
		return `"mode": "Active", "suspend": false, "sampling": {"intervalSeconds": 15, "pendingTimeoutSeconds": 300}, ` +
			`"rebalance": {"policy": "Opposing"}, "roles": [{"name": "server", "minReplicas": 2, "maxReplicas": 4}], ` +
			`"targetRef": {"name": "m1"}, "behavior": ` + behavior
	}
	full := behaving(`{"scaleUp": {"stabilizationWindowSeconds": 0, "maxStepReplicas": 4, "maxStepPercent": 100}, ` +
		`"scaleDown": {"stabilizationWindowSeconds": 300, "cooldownAfterAbortSeconds": 300, "decodePostScaleUpGraceSeconds": 120}}`)
	proportional := func(tolerance string) string {
		return `"algorithm": {"type": "Proportional", "proportional": {"metric": "QueueDepth", "tolerance": ` + tolerance +
			`, "roleTargets": [{"name": "server", "target": 8}]}}`
	}
	for name, test := range map[string]struct {
		object string
		paths  []string
	}{
		"a spec that has them all":             {scalerObject(`{` + full + `, ` + proportional(`"0.1"`) + `}`), nil},
		"a quantity in another spelling stays": {scalerObject(`{` + full + `, ` + proportional(`"100m"`) + `}`), nil},
		"a quantity that is a number stays":    {scalerObject(`{` + full + `, ` + proportional(`1`) + `}`), nil},
		"the type is inferred": {scalerObject(`{` + full + `, "algorithm": {"proportional": {"metric": "QueueDepth", "tolerance": "0.1", "roleTargets": [{"name": "server", "target": 8}]}}}`),
			[]string{"/spec/algorithm/type"}},
		"the type when nothing is given": {scalerObject(`{` + full + `, "algorithm": {}}`), []string{"/spec/algorithm/type"}},
		"zeros that store the default": {scalerObject(`{` + behaving(`{
			"scaleUp": {"stabilizationWindowSeconds": 0, "maxStepReplicas": 0, "maxStepPercent": 0, "stepPolicy": {"type": "Pods", "value": 0}},
			"scaleDown": {"stabilizationWindowSeconds": 0, "cooldownAfterAbortSeconds": 0, "decodePostScaleUpGraceSeconds": 0}}`) +
			`, ` + proportional(`"0.1"`) + `}`),
			[]string{"/spec/behavior/scaleDown/cooldownAfterAbortSeconds", "/spec/behavior/scaleDown/decodePostScaleUpGraceSeconds",
				"/spec/behavior/scaleDown/stabilizationWindowSeconds", "/spec/behavior/scaleUp/maxStepPercent", "/spec/behavior/scaleUp/maxStepReplicas"}},
		"zeros that the spec does not allow stay for the schema to refuse": {scalerObject(`{"mode": "", "suspend": false,
			"sampling": {"intervalSeconds": 0, "pendingTimeoutSeconds": 300}, "rebalance": {"policy": "Opposing"},
			"roles": [{"name": "server", "minReplicas": 0, "maxReplicas": 4}], "targetRef": {"name": "m1"},
			"behavior": {"scaleUp": {"stabilizationWindowSeconds": 0, "maxStepReplicas": 4, "maxStepPercent": 100},
				"scaleDown": {"stabilizationWindowSeconds": 300, "cooldownAfterAbortSeconds": 300, "decodePostScaleUpGraceSeconds": 120}}, ` +
			proportional(`"0.1"`) + `}`), nil},
		"a small policy": {queueDepth(""), []string{"/spec/algorithm/proportional/tolerance", "/spec/algorithm/type", "/spec/behavior", "/spec/mode",
			"/spec/rebalance", "/spec/roles/0/minReplicas", "/spec/sampling"}},
		"null for nothing": {queueDepth(`"behavior": null, "sampling": {"intervalSeconds": 30, "pendingTimeoutSeconds": null}, "mode": "Active", "rebalance": {"policy": "Disabled"}, `),
			[]string{"/spec/algorithm/proportional/tolerance", "/spec/algorithm/type", "/spec/behavior", "/spec/roles/0/minReplicas", "/spec/sampling/pendingTimeoutSeconds"}},
	} {
		t.Run(name, func(t *testing.T) {
			after, paths := mutated(t, test.object)
			require.Equal(t, test.paths, paths)
			_, again := mutated(t, after)
			require.Empty(t, again, "defaults of a defaulted scaler")
		})
	}
}

func TestWhatCannotBeReadPassesToTheSchemaUnchanged(t *testing.T) {
	for name, object := range map[string]string{
		"no spec":                         `{"kind": "ModelDeploymentScaler"}`,
		"a spec that is a list":           `{"kind": "ModelDeploymentScaler", "spec": []}`,
		"a spec that is null":             `{"kind": "ModelDeploymentScaler", "spec": null}`,
		"a mode that is a number":         scalerObject(`{"mode": 1}`),
		"a quantity that is a word":       queueDepth(`"ratios": [{"numeratorRole": "a", "denominatorRole": "b", "min": "half"}], `),
		"a quantity with a huge exponent": queueDepth(`"ratios": [{"numeratorRole": "a", "denominatorRole": "b", "min": "1e-99999999"}], `),
		"a quantity of a million digits":  queueDepth(`"ratios": [{"numeratorRole": "a", "denominatorRole": "b", "min": "` + strings.Repeat("9", 1<<20) + `"}], `),
		"an object that is a word":        `"x"`,
		"a scaler under deletion": `{"kind": "ModelDeploymentScaler", "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
			"spec": {"targetRef": {"name": "m1"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, paths := mutated(t, object)
			require.Empty(t, paths)
		})
	}
}

func TestAPolicyWithoutItsNestedBlockIsPatchedOnlyWhereItCanBe(t *testing.T) {
	after, _ := mutated(t, scalerObject(`{"targetRef": {"name": "m1"}, "roles": [], "algorithm": {"predictive": {}}}`))
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(after), &got))
	predictive := got["spec"].(map[string]any)["algorithm"].(map[string]any)["predictive"].(map[string]any)
	require.InDelta(t, 300, predictive["horizonSeconds"], 0)
}
