package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

// Finalizer of scalers: a scaler is gone only when its binding is (D46).
const Finalizer = "worker.gpustack.ai/scaler-binding"

// statusApply is a server-side apply of status alone. UID and version make sure that it lands on the object, and on the
// state of it, that the report is about: what a deposed leader still has in flight finds another version.
type statusApply struct {
	APIVersion string                               `json:"apiVersion"`
	Kind       string                               `json:"kind"`
	Metadata   applyMetadata                        `json:"metadata"`
	Status     workerv1.ModelDeploymentScalerStatus `json:"status"`
}

type applyMetadata struct {
	Namespace       string    `json:"namespace"`
	Name            string    `json:"name"`
	UID             types.UID `json:"uid"`
	ResourceVersion string    `json:"resourceVersion"`
}

// shortStatus is what every API server takes, in bytes.
const shortStatus = 128 << 10

// WriteStatus stores the status of a scaler, read at resourceVersion (D50), and returns the scaler as it is now. A conflict
// (apierrors.IsConflict) means that the scaler has moved on since. An API server that takes less than ours can be gets shorter
// histories, the oldest entries left out; decisions are never (D45).
func (w *Writer) WriteStatus(ctx context.Context, s metav1.Object, status workerv1.ModelDeploymentScalerStatus) (*workerv1.ModelDeploymentScaler, error) {
	for halvings := 8; ; halvings-- { // 256 entries, the most that a history has
		written, size, err := w.applyStatus(ctx, s, status)
		if err == nil {
			return written, nil
		}
		// What etcd refuses for its size is an internal error of the API server, like others.
		tooLarge := apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsInternalError(err)
		if !tooLarge || size <= shortStatus || halvings == 0 {
			return nil, fmt.Errorf("writing status of scaler %s/%s: %w", s.GetNamespace(), s.GetName(), err)
		}
		status = halved(status)
	}
}

func (w *Writer) applyStatus(ctx context.Context, s metav1.Object, status workerv1.ModelDeploymentScalerStatus) (*workerv1.ModelDeploymentScaler, int, error) {
	body, err := json.Marshal(statusApply{
		APIVersion: workerv1.GroupName + "/" + w.client.Version,
		Kind:       workerv1.Kind,
		Metadata: applyMetadata{
			Namespace: s.GetNamespace(), Name: s.GetName(), UID: s.GetUID(), ResourceVersion: s.GetResourceVersion(),
		},
		Status: status,
	})
	if err != nil {
		return nil, 0, err
	}
	force := true
	written, err := w.patchScaler(ctx, s, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: FieldManager, Force: &force}, "status")
	return written, len(body), err
}

// halved is the status with the newer half of every history.
func halved(status workerv1.ModelDeploymentScalerStatus) workerv1.ModelDeploymentScalerStatus {
	status.Roles, status.Predictors = slices.Clone(status.Roles), slices.Clone(status.Predictors)
	for i := range status.Roles {
		h := &status.Roles[i].StabilizationHistory
		*h = (*h)[(len(*h)+1)/2:]
	}
	for i := range status.Predictors {
		h := &status.Predictors[i].History
		*h = (*h)[(len(*h)+1)/2:]
	}
	return status
}

// AddFinalizer makes the scaler wait for the release of its binding when it is deleted, and returns it as it is now; nil when
// it waits already.
func (w *Writer) AddFinalizer(ctx context.Context, s metav1.Object) (*workerv1.ModelDeploymentScaler, error) {
	if slices.Contains(s.GetFinalizers(), Finalizer) {
		return nil, nil
	}
	return w.setFinalizers(ctx, s, append(slices.Clone(s.GetFinalizers()), Finalizer))
}

// RemoveFinalizer lets a deleted scaler go. That it is gone already is no error.
func (w *Writer) RemoveFinalizer(ctx context.Context, s metav1.Object) error {
	if !slices.Contains(s.GetFinalizers(), Finalizer) {
		return nil
	}
	rest := slices.DeleteFunc(slices.Clone(s.GetFinalizers()), func(f string) bool { return f == Finalizer })
	_, err := w.setFinalizers(ctx, s, rest)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// setFinalizers replaces the list, on the version that it was read at.
func (w *Writer) setFinalizers(ctx context.Context, s metav1.Object, finalizers []string) (*workerv1.ModelDeploymentScaler, error) {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": s.GetUID(), "resourceVersion": s.GetResourceVersion(), "finalizers": finalizers,
	}})
	if err != nil {
		return nil, fmt.Errorf("setting finalizers of scaler %s/%s: %w", s.GetNamespace(), s.GetName(), err)
	}
	written, err := w.patchScaler(ctx, s, types.MergePatchType, body, metav1.PatchOptions{FieldManager: FieldManager})
	if err != nil {
		return nil, fmt.Errorf("setting finalizers of scaler %s/%s: %w", s.GetNamespace(), s.GetName(), err)
	}
	return written, nil
}

func (w *Writer) patchScaler(ctx context.Context, s metav1.Object, kind types.PatchType, body []byte, o metav1.PatchOptions,
	subresources ...string,
) (*workerv1.ModelDeploymentScaler, error) {
	ctx, cancel, err := w.lease.Write(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	return w.client.Scalers(s.GetNamespace()).Patch(ctx, s.GetName(), kind, body, o, subresources...)
}
