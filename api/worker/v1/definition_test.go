package v1_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

type schemaProps = apiextensionsv1.JSONSchemaProps

// The API server checks structure, defaults, the compilation of rules and their cost when the definition is installed.
func TestDefinitionInstalls(t *testing.T) {
	var internal apiextensions.CustomResourceDefinition
	require.NoError(t, apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(readDefinition(t), &internal, nil))
	internal.Status.StoredVersions = []string{workerv1.SchemeGroupVersion.Version}
	require.NoError(t, validation.ValidateCustomResourceDefinition(t.Context(), &internal).ToAggregate())
}

func TestVersionsAreIdentical(t *testing.T) {
	versions := readDefinition(t).Spec.Versions
	require.Len(t, versions, len(workerv1.Versions))
	for i, version := range versions {
		require.Equal(t, workerv1.Versions[i], version.Name)
		require.Equal(t, version.Name == workerv1.SchemeGroupVersion.Version, version.Storage)
		require.True(t, version.Served)
		version.Name, version.Storage = versions[0].Name, versions[0].Storage
		require.Equal(t, versions[0], version)
	}
}

func TestDefinitionNamesThings(t *testing.T) {
	crd := readDefinition(t)
	require.Equal(t, workerv1.Resource+"."+workerv1.GroupName, crd.Name)
	require.Equal(t, workerv1.Kind, crd.Spec.Names.Kind)
	require.Equal(t, []string{"mds"}, crd.Spec.Names.ShortNames)
	require.Equal(t, []string{"gpustack", "autoscaling"}, crd.Spec.Names.Categories)
	for _, version := range crd.Spec.Versions {
		var narrow, wide []string
		for _, column := range version.AdditionalPrinterColumns {
			if column.Priority == 0 {
				narrow = append(narrow, column.Name)
			} else {
				wide = append(wide, column.Name)
			}
		}
		require.Equal(t, []string{"Target", "Mode", "Algorithm", "Bound", "Active", "Blocked", "Age"}, narrow)
		require.Equal(t, []string{"MetricsReady", "Suspended", "Term"}, wide)
		require.NotNil(t, version.Subresources.Status)
		require.Equal(t, []apiextensionsv1.SelectableField{{JSONPath: ".spec.targetRef.name"}, {JSONPath: ".spec.mode"}}, version.SelectableFields)
	}
}

// Unbounded fields make rules too expensive to install and objects too large to store.
func TestEveryFieldIsBounded(t *testing.T) {
	for path, s := range fields(t) {
		switch {
		case s.Type == "array":
			require.NotNil(t, s.MaxItems, "%s has no maxItems", path)
		case s.Type == "string":
			require.True(t, s.MaxLength != nil || len(s.Enum) > 0 || s.Format == "date-time", "%s has no maxLength", path)
		case s.XIntOrString:
			require.NotNil(t, s.MaxLength, "%s has no maxLength", path)
		case s.AdditionalProperties != nil:
			require.NotNil(t, s.MaxProperties, "%s has no maxProperties", path)
		}
	}
}

// `kubectl explain` prints the descriptions.
func TestEveryFieldIsExplained(t *testing.T) {
	for path, s := range fields(t) {
		name := path[strings.LastIndex(path, ".")+1:]
		if strings.HasPrefix(path, "status.conditions[]") || strings.HasSuffix(name, "[]") || strings.HasSuffix(name, "{}") {
			continue // Kubernetes wrote the former; the latter are items, explained with their list
		}
		require.True(t, strings.HasPrefix(s.Description, name+" "), "%s is described as %q", path, s.Description)
		require.NotContains(t, s.Description, "kubebuilder", path)
		require.NotContains(t, s.Description, "\n", path)
		if s.Default != nil && s.Type != "object" {
			require.Contains(t, s.Description, strings.Trim(string(s.Default.Raw), `"`), "%s does not mention its default", path)
		}
	}
}

// fields returns everything below spec and status by path; items of lists end in [], values of maps in {}.
func fields(t *testing.T) map[string]*schemaProps {
	t.Helper()
	found := map[string]*schemaProps{}
	root := readDefinition(t).Spec.Versions[0].Schema.OpenAPIV3Schema
	for _, part := range []string{"spec", "status"} {
		s := root.Properties[part]
		collect(part, &s, found)
	}
	return found
}

func collect(path string, s *schemaProps, found map[string]*schemaProps) {
	found[path] = s
	for name, child := range s.Properties {
		collect(path+"."+name, &child, found)
	}
	if s.Items != nil {
		collect(path+"[]", s.Items.Schema, found)
	}
	if s.AdditionalProperties != nil {
		collect(path+"{}", s.AdditionalProperties.Schema, found)
	}
}
