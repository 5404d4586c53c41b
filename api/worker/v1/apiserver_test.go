package v1_test

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/crd"
)

const definitionFile = "../../../manifests/crds/worker.gpustack.ai_modeldeploymentscalers.yaml"

func readDefinition(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	body, err := os.ReadFile(definitionFile)
	require.NoError(t, err)
	var crd apiextensionsv1.CustomResourceDefinition
	require.NoError(t, yaml.UnmarshalStrict(body, &crd))
	apiextensionsv1.SetDefaults_CustomResourceDefinition(&crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	return &crd
}

// write returns why the API server refuses obj, nil when it stores it. With webhook, the mutating webhook is installed.
func write(t *testing.T, obj, old map[string]any, webhook bool) field.ErrorList {
	t.Helper()
	server, err := crd.Scalers()
	require.NoError(t, err)
	server.Default(obj)
	if webhook {
		mutate(t, obj)
		server.Default(obj)
	}
	if old != nil {
		server.Default(old)
	}
	return server.Validate(t.Context(), obj, old)
}

// mutate replaces the spec by the defaulted one.
func mutate(t *testing.T, obj map[string]any) {
	t.Helper()
	body, err := json.Marshal(obj)
	require.NoError(t, err)
	var scaler workerv1.ModelDeploymentScaler
	require.NoError(t, json.Unmarshal(body, &scaler))
	workerv1.Default(&scaler.Spec)
	body, err = json.Marshal(scaler.Spec)
	require.NoError(t, err)
	obj["spec"] = decode(t, body)
}

func decode(t *testing.T, body []byte) map[string]any {
	t.Helper()
	var obj map[string]any
	// Integers must stay integers, as they do in the API server.
	require.NoError(t, yaml.Unmarshal(body, &obj, func(d *json.Decoder) *json.Decoder { d.UseNumber(); return d }))
	return integers(obj).(map[string]any)
}

func integers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, child := range v {
			v[key] = integers(child)
		}
	case []any:
		for i, child := range v {
			v[i] = integers(child)
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	}
	return v
}

func example(t *testing.T, name string) map[string]any {
	t.Helper()
	body, err := os.ReadFile("testdata/" + name + ".yaml")
	require.NoError(t, err)
	return decode(t, body)
}

// gone as a value removes the field.
var gone = new(struct{})

// set changes the field at a path such as "spec.roles.0.name".
func set(t *testing.T, obj map[string]any, path string, value any) {
	t.Helper()
	var at any = obj
	keys := strings.Split(path, ".")
	for i, key := range keys {
		last := i == len(keys)-1
		switch node := at.(type) {
		case map[string]any:
			switch {
			case last && value == any(gone):
				delete(node, key)
			case last:
				node[key] = value
			case node[key] == nil:
				node[key] = map[string]any{}
				at = node[key]
			default:
				at = node[key]
			}
		case []any:
			n, err := strconv.Atoi(key)
			require.NoError(t, err, path)
			require.Less(t, n, len(node), path)
			if last {
				node[n] = value
			}
			at = node[n]
		default:
			require.Failf(t, "no such field", "%s stops at %s", path, key)
		}
	}
}

func get(obj map[string]any, path string) any {
	var at any = obj
	for _, key := range strings.Split(path, ".") {
		switch node := at.(type) {
		case map[string]any:
			at = node[key]
		case []any:
			n, _ := strconv.Atoi(key)
			at = node[n]
		}
	}
	return at
}
