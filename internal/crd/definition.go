package crd

import (
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"gpustack.ai/model-deployment-scaler/manifests/crds"
)

// Definition is the schema of a kind, ready to judge objects. It is safe for concurrent use.
type Definition struct {
	structural *schema.Structural
	validator  validation.SchemaValidator
	rules      *cel.Validator
}

// Scalers is the definition of ModelDeploymentScaler that this version installs. All its versions have one schema.
var Scalers = sync.OnceValues(func() (*Definition, error) {
	d, err := parse(crds.Scalers)
	if err != nil {
		return nil, fmt.Errorf("reading the definition of ModelDeploymentScaler: %w", err)
	}
	return d, nil
})

func parse(manifest []byte) (*Definition, error) {
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(manifest, &definition); err != nil {
		return nil, err
	}
	var internal apiextensions.JSONSchemaProps
	v1 := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v1, &internal, nil); err != nil {
		return nil, err
	}
	structural, err := schema.NewStructural(&internal)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		return nil, err
	}
	return &Definition{structural, validator, cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// Default fills in the defaults of the schema.
func (d *Definition) Default(object map[string]any) { defaulting.Default(object, d.structural) }
