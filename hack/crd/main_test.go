package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const generated = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: things.example.com
spec:
  group: example.com
  names: {kind: Thing, plural: things}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        description: "first line\nsecond line\n\nsecond paragraph"
        properties:
          spec:
            type: object
            properties:
              list:
                type: array
                items: {x-kubernetes-int-or-string: true}
              qLevel: {x-kubernetes-int-or-string: true}
          status:
            type: object
            properties:
              level: {x-kubernetes-int-or-string: true}
`

func TestFinish(t *testing.T) {
	body, err := finish([]byte(generated))
	require.NoError(t, err)
	again, err := finish([]byte(generated))
	require.NoError(t, err)
	require.Equal(t, string(body), string(again))

	var crd apiextensionsv1.CustomResourceDefinition
	require.NoError(t, yaml.UnmarshalStrict(body, &crd))
	require.Len(t, crd.Spec.Versions, 2)
	require.Equal(t, "v1alpha1", crd.Spec.Versions[1].Name)
	require.False(t, crd.Spec.Versions[1].Storage)
	require.NotContains(t, string(body), "storedVersions")

	root := crd.Spec.Versions[1].Schema.OpenAPIV3Schema
	require.Equal(t, "first line second line\n\nsecond paragraph", root.Description)
	spec, status := root.Properties["spec"].Properties, root.Properties["status"].Properties
	item, level, estimate := spec["list"].Items.Schema, spec["qLevel"], status["level"]
	require.Equal(t, positiveRule, item.XValidations[0].Rule)
	require.Equal(t, quantityPattern, item.Pattern)
	require.Empty(t, level.XValidations)
	require.Equal(t, quantityPattern, level.Pattern)
	require.Empty(t, estimate.XValidations)
	for _, quantity := range []*schema{item, &level, &estimate} {
		require.EqualValues(t, quantityMaxLength, *quantity.MaxLength)
	}
}

func TestFinishRefusesOtherInput(t *testing.T) {
	_, err := finish([]byte("kind: [not one"))
	require.ErrorContains(t, err, "parsing the generated definition")
	_, err = finish([]byte("metadata: {name: x}\n"))
	require.ErrorContains(t, err, `finishing the definition "x": it has 0 versions`)
}

func TestRunNamesTheToolThatFailed(t *testing.T) {
	require.ErrorContains(t, run("no-such-generator", os.DevNull), "running no-such-generator")
}
