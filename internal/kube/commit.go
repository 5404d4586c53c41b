package kube

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// Lease backs every write: it gives a context that ends before the Lease does, or an error (D37). An Election is one.
type Lease interface {
	Write(ctx context.Context) (context.Context, context.CancelFunc, error)
}

// Writer writes under one leadership. It is the only writer of replica counts.
type Writer struct {
	client *Client
	lease  Lease
	epoch  fence.Epoch
}

// NewWriter makes the writer of one leadership.
func NewWriter(client *Client, lease Lease, epoch fence.Epoch) *Writer {
	return &Writer{client: client, lease: lease, epoch: epoch}
}

// Commit sends one change to the target that it was planned on, and returns the generation that the answer carries. Before,
// it asks the fence what the webhook will ask; a *fence.Refusal then means a defect of ours, and nothing was sent.
func (w *Writer) Commit(ctx context.Context, d target.Deployment, c Change) (generation int64, err error) {
	body, err := patch(d, c)
	if err != nil {
		return 0, err
	}
	if err := w.allowed(d, c); err != nil {
		return 0, fmt.Errorf("checking our own write: %w", err)
	}
	ctx, cancel, err := w.lease.Write(ctx)
	if err != nil {
		return 0, err
	}
	defer cancel()
	written, err := w.client.Targets(d.Namespace).Patch(ctx, d.Name, types.JSONPatchType, body, metav1.PatchOptions{FieldManager: FieldManager})
	if err != nil {
		return 0, fmt.Errorf("writing to %s %s/%s: %w", target.Kind, d.Namespace, d.Name, err)
	}
	return written.GetGeneration(), nil
}

// allowed asks the fence about our own write.
func (w *Writer) allowed(d target.Deployment, c Change) error {
	old := objectOf(d)
	refusal := fence.Check(fence.Request{
		Namespace: d.Namespace, Name: d.Name, Decider: true, Old: &old, New: after(d, c),
		Facts: fence.Facts{
			Scaler: func(string) (*fence.Scaler, error) { return nil, nil },
			Epoch:  func() (fence.Epoch, error) { return w.epoch, nil },
		},
	})
	if refusal != nil { // not returned as it is: a nil *Refusal is no nil error
		return refusal
	}
	return nil
}

// Outdated says that a write failed because the object is not what was planned on any more: look again and plan again
// (D34). A role that has moved inside the list fails its test with 422 before versions are compared.
func Outdated(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsInvalid(err) || apierrors.IsNotFound(err)
}
