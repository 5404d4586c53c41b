package webhook

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// lister is the part of discovery that finding a version needs.
type lister interface {
	ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
}

// versions knows in which version the cluster serves our two kinds. It looks when first asked and not at start, so that the
// webhook serves before the other kind's definition is installed.
type versions struct {
	discovery  lister
	candidates []string // preferred first
	known      atomic.Pointer[string]
}

func newVersions(d lister, fixed string) *versions {
	v := &versions{discovery: d, candidates: workerv1.Versions}
	if fixed != "" {
		v.candidates = []string{fixed}
	}
	return v
}

// of returns how to reach a resource; false when no version serves it, so that no object of it can exist. The version is the
// first that serves both kinds: on clusters of the GPUStack operator v1 is an aggregated API that knows deployments alone
// (D49).
func (v *versions) of(ctx context.Context, resource string) (schema.GroupVersionResource, bool, error) {
	if known := v.known.Load(); known != nil {
		return gvr(*known, resource), true, nil
	}
	alone, errs := "", []error(nil)
	for _, version := range v.candidates {
		both, this, err := v.serves(ctx, version, resource)
		if both {
			v.known.Store(&version)
			return gvr(version, resource), true, nil
		}
		if this && alone == "" {
			alone = version
		}
		errs = append(errs, err)
	}
	// Only when every version has answered is it certain that none serves both.
	return gvr(alone, resource), alone != "", errors.Join(errs...)
}

// serves asks whether a version serves both kinds, and whether it serves the resource.
func (v *versions) serves(ctx context.Context, version, resource string) (both, this bool, err error) {
	list, err := v.discovery.ServerResourcesForGroupVersionWithContext(ctx, workerv1.GroupName+"/"+version)
	if apierrors.IsNotFound(err) {
		return false, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("asking what %s/%s serves: %w", workerv1.GroupName, version, err)
	}
	served := make(map[string]bool, len(list.APIResources))
	for _, r := range list.APIResources {
		served[r.Name] = true
	}
	return served[workerv1.Resource] && served[target.Resource], served[resource], nil
}

// forget makes the next call look again.
func (v *versions) forget() { v.known.Store(nil) }

func gvr(version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: workerv1.GroupName, Version: version, Resource: resource}
}
