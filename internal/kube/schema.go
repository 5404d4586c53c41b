package kube

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// checkScalerCRD refuses a CRD of scalers that would silently lose part of a policy, or of the memory in the status (D49).
func checkScalerCRD(ctx context.Context, client dynamic.Interface) error {
	name := workerv1.Resource + "." + workerv1.GroupName
	crd, err := client.Resource(crdResource).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: CustomResourceDefinition %s is not installed; apply this release's CRDs first", ErrUnfit, name)
	}
	if err != nil {
		return fmt.Errorf("reading CustomResourceDefinition %s: %w", name, err)
	}
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return fmt.Errorf("reading CustomResourceDefinition %s: %w", name, err)
	}
	for _, item := range versions {
		version, _ := item.(map[string]any)
		if version["served"] != true {
			continue
		}
		if missing := missingFrom(version); len(missing) > 0 {
			return fmt.Errorf("%w: CustomResourceDefinition %s, version %v, lacks fields that the decider needs: %s; apply this release's CRDs",
				ErrUnfit, name, version["name"], strings.Join(missing, ", "))
		}
	}
	return nil
}

// missingFrom lists the fields of our spec and status that a version's schema would prune.
func missingFrom(version map[string]any) []string {
	properties, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema", "properties")
	var missing []string
	for name, t := range map[string]reflect.Type{
		"spec":   reflect.TypeFor[workerv1.ModelDeploymentScalerSpec](),
		"status": reflect.TypeFor[workerv1.ModelDeploymentScalerStatus](),
	} {
		node, _ := properties[name].(map[string]any)
		missing = append(missing, missingFields(t, node, name)...)
	}
	slices.Sort(missing)
	return missing
}

// missingFields walks a Go type along a structural schema.
func missingFields(t reflect.Type, node map[string]any, path string) []string {
	if node["x-kubernetes-preserve-unknown-fields"] == true {
		return nil
	}
	if node == nil {
		return []string{path}
	}
	switch {
	case t.Kind() == reflect.Pointer:
		return missingFields(t.Elem(), node, path)
	case t.Kind() == reflect.Slice:
		items, _ := node["items"].(map[string]any)
		return missingFields(t.Elem(), items, path+"[]")
	case t.Kind() != reflect.Struct || isScalar(t):
		return nil
	}
	var missing []string
	properties, _ := node["properties"].(map[string]any)
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		child, _ := properties[name].(map[string]any)
		missing = append(missing, missingFields(field.Type, child, path+"."+name)...)
	}
	return missing
}

// isScalar: structs that are one JSON value.
func isScalar(t reflect.Type) bool {
	return t == reflect.TypeFor[metav1.Time]() || t == reflect.TypeFor[resource.Quantity]()
}
