package crd

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func scaler(metadata, spec map[string]any) map[string]any {
	return map[string]any{"apiVersion": "worker.gpustack.ai/v1", "kind": "ModelDeploymentScaler", "metadata": metadata, "spec": spec}
}

func TestUnknownFieldsAreNamedAndRemoved(t *testing.T) {
	d, err := Scalers()
	require.NoError(t, err)
	object := scaler(map[string]any{"name": "a", "label": "x"},
		map[string]any{"mod": "Active", "mode": "Active", "roles": []any{map[string]any{"name": "server", "max": int64(1)}}})
	require.ElementsMatch(t, []string{"metadata.label", "spec.mod", "spec.roles[0].max"}, d.Prune(object))
	require.Equal(t, map[string]any{"mode": "Active", "roles": []any{map[string]any{"name": "server"}}}, object["spec"])
	require.Empty(t, d.Prune(scaler(map[string]any{"name": []any{}}, nil)), "what is misshapen is for Validate to tell")
}

func TestMetadataIsJudgedToo(t *testing.T) {
	d, err := Scalers()
	require.NoError(t, err)
	for name, object := range map[string]map[string]any{
		"metadata.name":      scaler(map[string]any{"name": "A", "namespace": "ns"}, nil),
		"metadata.namespace": scaler(map[string]any{"name": "a"}, nil),
		"metadata":           scaler(map[string]any{"name": []any{}}, nil),
	} {
		var fields []string
		for _, e := range d.Validate(t.Context(), object, nil) {
			fields = append(fields, e.Field)
		}
		require.Contains(t, fields, name)
		require.Contains(t, fields, "<nil>", "rules were not run, and that is said")
	}
}

func TestADefinitionThatCannotBeReadIsAnError(t *testing.T) {
	for _, body := range []string{"spec: 1", `spec: {versions: [{name: v1, schema: {openAPIV3Schema: {type: object, properties: {a: {type: array, items: [{type: string}, {type: string}]}}}}}]}`} {
		_, err := parse([]byte(body))
		require.Error(t, err)
	}
}
