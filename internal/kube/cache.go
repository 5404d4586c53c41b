package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// Indexes of the caches.
const (
	byTarget = "target" // scalers, by the key of their target
	byOwner  = "owner"  // Pods and Workloads, by the key of their deployment
	byPod    = "pod"    // Workloads, by UID of a Pod that owns them
	byUID    = "uid"    // Workloads
)

// CacheOptions say what is cached beside scalers, targets and their Pods.
type CacheOptions struct {
	// Namespace and Selector of the sampler Pods; an empty selector: they are not looked for.
	Namespace, Selector string
	// WorkloadPoll is how often the cluster is asked whether it serves Workloads by now (D60).
	WorkloadPoll time.Duration
	Log          *zap.Logger
}

// Cache is the warm view of the cluster. Objects that it hands out are shared: never change them.
type Cache struct {
	client    *Client
	scalers   cache.SharedIndexInformer
	targets   cache.SharedIndexInformer
	pods      cache.SharedIndexInformer
	samplers  cache.SharedIndexInformer // nil: not looked for
	workloads *workloadCache
}

// NewCache makes the caches; Run fills them.
func NewCache(client *Client, o CacheOptions) (*Cache, error) {
	enginePods := labels.Set{target.NameLabel: target.NameValue}.String()
	scalers, err1 := newInformer(client.Scalers(""), "", &workerv1.ModelDeploymentScaler{}, transform(keepScaler),
		cache.Indexers{byTarget: indexBy(func(s *cachedScaler) []string {
			return []string{key(s.Namespace, s.Spec.TargetRef.Name)}
		})})
	targets, err2 := newInformer(client.Dynamic.Resource(client.targetResource()), "", &unstructured.Unstructured{},
		transform(keepTarget), nil)
	pods, err3 := newInformer(client.Core.CoreV1().Pods(""), enginePods, &corev1.Pod{}, transform(keepPod),
		cache.Indexers{byOwner: indexBy(func(p *cachedPod) []string {
			return []string{key(p.Namespace, p.label(target.InstanceLabel))}
		})})
	c := &Cache{client: client, scalers: scalers, targets: targets, pods: pods, workloads: newWorkloadCache(client, o)}
	var err4 error
	if o.Selector != "" {
		c.samplers, err4 = newInformer(client.Core.CoreV1().Pods(o.Namespace), o.Selector, &corev1.Pod{}, transform(keepPod), nil)
	}
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, fmt.Errorf("preparing caches: %w", err)
	}
	return c, nil
}

// key of an object in caches and queues.
func key(namespace, name string) string {
	return types.NamespacedName{Namespace: namespace, Name: name}.String()
}

// Run keeps the caches until ctx ends.
func (c *Cache) Run(ctx context.Context) error {
	var g errgroup.Group
	for _, informer := range c.informers() {
		g.Go(func() error { informer.RunWithContext(ctx); return nil })
	}
	g.Go(func() error { c.workloads.run(ctx); return nil })
	return g.Wait()
}

func (c *Cache) informers() []cache.SharedIndexInformer {
	list := []cache.SharedIndexInformer{c.scalers, c.targets, c.pods}
	if c.samplers != nil {
		list = append(list, c.samplers)
	}
	return list
}

// Synced is nil once every cache is warm: a ready check.
func (c *Cache) Synced() error {
	for _, informer := range c.informers() {
		if !informer.HasSynced() {
			return errors.New("caches are not synced yet: see the log for what the API server answers")
		}
	}
	if !c.workloads.settled() {
		return errors.New("it is not known yet whether the cluster serves Workloads")
	}
	return nil
}

// WaitForSync returns true when every cache is warm, or false when ctx ends before.
func (c *Cache) WaitForSync(ctx context.Context) bool {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for c.Synced() != nil {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
	return true
}
