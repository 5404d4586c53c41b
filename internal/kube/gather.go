package kube

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// readTimeout bounds one live read, so that a request which gets no answer holds up one pass for a moment and no more.
const readTimeout = 5 * time.Second

// Scaler is the cached scaler; nil when there is none. Like the others from the cache it has no histories in its status.
func (c *Cache) Scaler(name types.NamespacedName) *workerv1.ModelDeploymentScaler {
	if scaler := c.scaler(name); scaler != nil {
		return &scaler.ModelDeploymentScaler
	}
	return nil
}

// WholeScaler is the cached scaler with the histories in its status; nil when there is none.
func (c *Cache) WholeScaler(name types.NamespacedName) (*workerv1.ModelDeploymentScaler, error) {
	if scaler := c.scaler(name); scaler != nil {
		return scaler.whole()
	}
	return nil, nil
}

func (c *Cache) scaler(name types.NamespacedName) *cachedScaler {
	object, found, err := c.scalers.GetIndexer().GetByKey(name.String())
	if err != nil || !found {
		return nil
	}
	scaler, _ := object.(*cachedScaler)
	return scaler
}

// ScalerLive reads the scaler from the API server; nil when there is none.
func (c *Cache) ScalerLive(ctx context.Context, name types.NamespacedName) (*workerv1.ModelDeploymentScaler, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	scaler, err := c.client.Scalers(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading scaler %s: %w", name, err)
	}
	return scaler, nil
}

// Scalers lists all cached scalers.
func (c *Cache) Scalers() []*workerv1.ModelDeploymentScaler {
	objects := c.scalers.GetIndexer().List()
	scalers := make([]*workerv1.ModelDeploymentScaler, 0, len(objects))
	for _, o := range objects {
		if s, ok := o.(*cachedScaler); ok {
			scalers = append(scalers, &s.ModelDeploymentScaler)
		}
	}
	return scalers
}

// ScalersOf lists the cached scalers of a target.
func (c *Cache) ScalersOf(name types.NamespacedName) []*workerv1.ModelDeploymentScaler {
	found := byIndex[*cachedScaler](c.scalers, byTarget, name.String())
	scalers := make([]*workerv1.ModelDeploymentScaler, len(found))
	for i, s := range found {
		scalers[i] = &s.ModelDeploymentScaler
	}
	return scalers
}

// Snapshot is the cached target with its instances; nil when there is no target.
func (c *Cache) Snapshot(name types.NamespacedName) (*target.Snapshot, error) {
	object, found, err := c.targets.GetIndexer().GetByKey(name.String())
	if err != nil || !found {
		return nil, err
	}
	return c.snapshot(object.(*cachedTarget))
}

// SnapshotLive is Snapshot with the target read from the API server; its Pods and Workloads come from the cache.
func (c *Cache) SnapshotLive(ctx context.Context, name types.NamespacedName) (*target.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	object, err := c.client.Targets(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", target.Kind, name, err)
	}
	return c.snapshot(newCachedTarget(object))
}

func (c *Cache) snapshot(t *cachedTarget) (*target.Snapshot, error) {
	if t.err != nil {
		return nil, t.err
	}
	d := t.deployment
	deployment := key(d.Namespace, d.Name)
	cached := byIndex[*cachedPod](c.pods, byOwner, deployment)
	pods, uids := make([]*corev1.Pod, len(cached)), make([]string, len(cached))
	for i, p := range cached {
		pods[i], uids[i] = p.pod(), string(p.UID)
	}
	retiring := ""
	if d.Retirement != nil {
		retiring = d.Retirement.WorkloadUID
	}
	workloads, served := c.workloads.of(uids, retiring, deployment)
	return &target.Snapshot{Deployment: d, Instances: target.Instances(d, pods, workloads, served)}, nil
}

// Sampler is a sampler Pod that can be called.
type Sampler struct{ Name, IP string }

// Samplers lists the sampler Pods that are Ready and stay.
func (c *Cache) Samplers() []Sampler {
	if c.samplers == nil {
		return nil
	}
	var samplers []Sampler
	for _, o := range c.samplers.GetIndexer().List() {
		if p, ok := o.(*cachedPod); ok && p.DeletionTimestamp == nil && p.ip != "" && p.ready == corev1.ConditionTrue {
			samplers = append(samplers, Sampler{Name: p.Name, IP: p.ip})
		}
	}
	return samplers
}
