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

// Scaler is the cached scaler; nil when there is none.
func (c *Cache) Scaler(name types.NamespacedName) *workerv1.ModelDeploymentScaler {
	object, found, err := c.scalers.GetIndexer().GetByKey(name.String())
	if err != nil || !found {
		return nil
	}
	scaler, _ := object.(*workerv1.ModelDeploymentScaler)
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
		if s, ok := o.(*workerv1.ModelDeploymentScaler); ok {
			scalers = append(scalers, s)
		}
	}
	return scalers
}

// ScalersOf lists the cached scalers of a target.
func (c *Cache) ScalersOf(name types.NamespacedName) []*workerv1.ModelDeploymentScaler {
	return byIndex[*workerv1.ModelDeploymentScaler](c.scalers, byTarget, name.String())
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
	pods := byIndex[*corev1.Pod](c.pods, byOwner, deployment)
	uids := make([]string, len(pods))
	for i, p := range pods {
		uids[i] = string(p.UID)
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
		if p, ok := o.(*corev1.Pod); ok && p.DeletionTimestamp == nil && p.Status.PodIP != "" && podReady(p) {
			samplers = append(samplers, Sampler{Name: p.Name, IP: p.Status.PodIP})
		}
	}
	return samplers
}

func podReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
