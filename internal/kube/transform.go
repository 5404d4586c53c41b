package kube

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// cachedTarget is a ModelDeployment as the cache keeps it: read once, the rest dropped.
type cachedTarget struct {
	metav1.ObjectMeta
	deployment target.Deployment
	err        error // why it could not be read
}

// cachedWorkload is a Workload as the cache keeps it.
type cachedWorkload struct {
	metav1.ObjectMeta
	workload target.Workload
}

// transform adapts a typed function; tombstones and what was transformed already pass through.
func transform[T any](f func(T) any) cache.TransformFunc {
	return func(object any) (any, error) {
		if typed, ok := object.(T); ok {
			return f(typed), nil
		}
		return object, nil
	}
}

// identity is what a cache and its handlers need of an object's metadata.
func identity(o metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: shared(o.GetNamespace()), Name: o.GetName(), UID: o.GetUID(),
		ResourceVersion: o.GetResourceVersion(), Generation: o.GetGeneration(), DeletionTimestamp: o.GetDeletionTimestamp(),
	}
}

func keepTarget(u *unstructured.Unstructured) any {
	return newCachedTarget(u)
}

func newCachedTarget(u *unstructured.Unstructured) *cachedTarget {
	deployment, err := target.Parse(u)
	deployment.Annotations = blankAnnotations(deployment.Annotations)
	return &cachedTarget{ObjectMeta: identity(u), deployment: deployment, err: err}
}

// blankAnnotations keeps the two that are ours. Of the others it keeps the keys: whether the map is there decides how a
// commit is written (D34), what strangers put in it is their matter.
func blankAnnotations(annotations map[string]string) map[string]string {
	kept := make(map[string]string, len(annotations))
	for key, value := range annotations {
		if key != fence.BindingAnnotation && key != fence.DecisionAnnotation {
			value = ""
		}
		kept[key] = value
	}
	return kept
}

func keepWorkload(u *unstructured.Unstructured) any {
	return &cachedWorkload{ObjectMeta: identity(u), workload: target.ParseWorkload(u)}
}

// object gives what a handler was handed; of a tombstone what it remembers.
func object[T any](handed any) (T, error) {
	if tombstone, ok := handed.(cache.DeletedFinalStateUnknown); ok {
		handed = tombstone.Obj
	}
	typed, ok := handed.(T)
	if !ok {
		return typed, fmt.Errorf("reading a change: unexpected %T", handed)
	}
	return typed, nil
}
