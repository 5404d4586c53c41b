package crd

import (
	"context"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/operation"
	metadata "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Prune removes the fields that the schema does not know and returns their paths, which strict field validation refuses.
func (d *Definition) Prune(object map[string]any) []string {
	_, _, unknown, err := objectmeta.GetObjectMetaWithOptions(object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		unknown = nil // metadata of a wrong shape, which Validate tells
	}
	options := schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	return append(unknown, pruning.PruneWithOptions(object, d.structural, true, options)...)
}

// Validate returns why the API server refuses an object with its defaults in, whether it is created or, with old, updated: all
// errors at once, but for the CEL rules where an object is too broken for them, which is then said.
func (d *Definition) Validate(ctx context.Context, object, old map[string]any) field.ErrorList {
	errs := metadataErrors(ctx, object)
	var before any // a nil map in an interface would be an old object
	if old == nil {
		errs = append(errs, validation.ValidateCustomResource(nil, object, d.validator)...)
	} else {
		before = old
		errs = append(errs, validation.ValidateCustomResourceUpdate(nil, object, old, d.validator)...)
	}
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.structural, object)...)
	if slices.ContainsFunc(errs, keepsRulesFromRunning) {
		return append(errs, field.Invalid(nil, nil,
			"some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"))
	}
	broken, _ := d.rules.Validate(ctx, nil, d.structural, object, before, celconfig.RuntimeCELCostBudget)
	return append(errs, broken...)
}

// keepsRulesFromRunning names the errors after which the API server runs no rule.
func keepsRulesFromRunning(err *field.Error) bool {
	switch err.Type {
	case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
		return true
	default:
		return false
	}
}

func metadataErrors(ctx context.Context, object map[string]any) field.ErrorList {
	path := field.NewPath("metadata")
	raw, is := object["metadata"].(map[string]any)
	if !is && object["metadata"] != nil {
		return field.ErrorList{field.TypeInvalid(path, object["metadata"], "must be an object")}
	}
	var meta metav1.ObjectMeta
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &meta); err != nil {
		return field.ErrorList{field.Invalid(path, raw, err.Error())}
	}
	return metadata.ValidateObjectMetaDeclaratively(ctx, operation.Create, &meta, nil, true, metadata.NameIsDNSSubdomain, path, true)
}
