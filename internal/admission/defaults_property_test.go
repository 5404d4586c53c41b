package admission

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"gpustack.ai/model-deployment-scaler/internal/crd"
	"gpustack.ai/model-deployment-scaler/manifests/crds"
)

// Any scaler of the right shape, whatever of it is missing, null, zero or given: defaults change nothing that was given, turn a
// zero into a default only where the spec says so, add no block, and applied again change nothing.
func TestDefaultsOfAnyScaler(t *testing.T) {
	var definition apiextensionsv1.CustomResourceDefinition
	require.NoError(t, yaml.UnmarshalStrict(crds.Scalers, &definition))
	shape := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	rapid.Check(t, func(t *rapid.T) {
		spec := anyObject(t, "spec", shape)
		stored := admitted(t, spec)
		requireKept(t, "spec", spec, stored)
		require.Equal(t, stored, admitted(t, stored), "defaults of a defaulted scaler")
		given, _ := spec["algorithm"].(map[string]any)
		for block := range stored["algorithm"].(map[string]any) {
			if block != "type" {
				require.Contains(t, given, block, "an algorithm's block came from nowhere")
			}
		}
	})
}

// admitted is the spec as it is stored: defaults of the schema, of the webhook, and of the schema again.
func admitted(t require.TestingT, spec map[string]any) map[string]any {
	definition, err := crd.Scalers()
	require.NoError(t, err)
	object := decoded(t, encoded(t, map[string]any{"kind": "ModelDeploymentScaler", "spec": spec}))
	definition.Default(object)
	sent := encoded(t, object)
	operations, err := Defaults(sent)
	require.NoError(t, err)
	if operations != nil {
		patch, err := jsonpatch.DecodePatch(operations)
		require.NoError(t, err)
		sent, err = patch.Apply(sent)
		require.NoError(t, err)
	}
	object = decoded(t, sent)
	definition.Default(object)
	return object["spec"].(map[string]any)
}

func encoded(t require.TestingT, value any) []byte {
	body, err := json.Marshal(value)
	require.NoError(t, err)
	return body
}

func decoded(t require.TestingT, body []byte) (object map[string]any) {
	require.NoError(t, utiljson.Unmarshal(body, &object))
	return object
}

// anyObject draws an object whose fields have their types; a required one may be missing too. Lists have up to two entries.
func anyObject(t *rapid.T, path string, shape apiextensionsv1.JSONSchemaProps) map[string]any {
	object := map[string]any{}
	var names []string
	for name := range shape.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		at := path + "." + name
		switch rapid.SampledFrom([]string{"given", "given", "zero", "null", "missing"}).Draw(t, at) {
		case "given":
			object[name] = anyValue(t, at, shape.Properties[name], false)
		case "zero":
			object[name] = anyValue(t, at, shape.Properties[name], true)
		case "null":
			object[name] = nil
		}
	}
	return object
}

func anyValue(t *rapid.T, path string, shape apiextensionsv1.JSONSchemaProps, zero bool) any {
	switch {
	case shape.XIntOrString:
		return pick(t, path, zero, []any{"0", int64(0)}, []any{"0.5", int64(7), "1500m", "-1"})
	case shape.Type == "object":
		return anyObject(t, path, shape)
	case shape.Type == "array":
		list := []any{}
		for range rapid.IntRange(0, 2).Draw(t, path+"[]") {
			list = append(list, anyValue(t, path+"[]", *shape.Items.Schema, false))
		}
		return list
	case shape.Type == "integer":
		return pick(t, path, zero, []any{int64(0)}, []any{int64(1), int64(77), int64(-3)})
	case shape.Type == "boolean":
		return !zero
	default:
		return pick(t, path, zero, []any{""}, []any{"Active", "Predictive", "Proportional", "TokenThroughput", "x"})
	}
}

func pick(t *rapid.T, path string, zero bool, zeros, others []any) any {
	if zero {
		return rapid.SampledFrom(zeros).Draw(t, path+"=")
	}
	return rapid.SampledFrom(others).Draw(t, path+"=")
}

// requireKept wants what was sent in what is stored, but for nulls and for the zeros of "Pacing and guards".
func requireKept(t require.TestingT, path string, sent, stored any) {
	switch sent := sent.(type) {
	case nil:
	case map[string]any:
		for name, value := range sent {
			requireKept(t, path+"."+name, value, stored.(map[string]any)[name])
		}
	case []any:
		require.Len(t, stored, len(sent), path)
		for i := range sent {
			requireKept(t, path+"[]", sent[i], stored.([]any)[i])
		}
	default:
		if sent == int64(0) && slices.Contains(pacingZeros, strings.TrimPrefix(path, "spec.behavior.")) {
			require.NotEqual(t, sent, stored, path)
			return
		}
		require.Equal(t, sent, stored, path)
	}
}

// pacingZeros are the fields of which the spec says that zero stores the default; in scaleUp a window of zero means no wait.
var pacingZeros = []string{"scaleUp.maxStepReplicas", "scaleUp.maxStepPercent", "scaleDown.stabilizationWindowSeconds",
	"scaleDown.cooldownAfterAbortSeconds", "scaleDown.decodePostScaleUpGraceSeconds"}
