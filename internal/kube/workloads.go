package kube

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"gpustack.ai/model-deployment-scaler/internal/target"
)

// workloadCache caches Kueue's Workloads while the cluster serves them, which may begin or end at any time (D60).
type workloadCache struct {
	client    dynamic.Interface
	discovery resourceLister
	poll      time.Duration
	log       *zap.Logger

	mu       sync.Mutex
	known    bool                      // the cluster has been asked with success
	informer cache.SharedIndexInformer // nil: not served
	stop     context.CancelFunc
}

func newWorkloadCache(client *Client, o CacheOptions) *workloadCache {
	return &workloadCache{client: client.Dynamic, discovery: discovery.ToServerResourcesInterfaceWithContext(client.Core.Discovery()), poll: o.WorkloadPoll, log: o.Log}
}

// run asks again and again; an API server that does not answer changes nothing.
func (w *workloadCache) run(ctx context.Context) {
	ticker := time.NewTicker(w.poll)
	defer ticker.Stop()
	for {
		served, err := w.served(ctx)
		switch {
		case err != nil:
			w.log.Debug("could not ask whether the cluster serves Workloads", zap.Error(err))
		case served:
			w.begin(ctx)
		default:
			w.end()
		}
		select {
		case <-ctx.Done():
			// The informer ends by itself. What it has read stays, for a pass that is still under way.
			return
		case <-ticker.C:
		}
	}
}

func (w *workloadCache) served(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	list, err := w.discovery.ServerResourcesForGroupVersionWithContext(ctx, workloadResource().GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && serves(list, target.WorkloadResource), err
}

func workloadResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: target.WorkloadGroup, Version: target.WorkloadVersion, Resource: target.WorkloadResource}
}

func (w *workloadCache) begin(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.informer != nil {
		return
	}
	informer, err := newInformer(w.client.Resource(workloadResource()), "", &unstructured.Unstructured{}, transform(keepWorkload),
		cache.Indexers{
			byPod: indexBy(func(c *cachedWorkload) []string { return c.workload.PodUIDs }),
			byUID: indexBy(func(c *cachedWorkload) []string { return []string{string(c.UID)} }),
			byOwner: indexBy(func(c *cachedWorkload) []string {
				owners := c.workload.Deployments()
				for i, name := range owners {
					owners[i] = key(c.Namespace, name)
				}
				return owners
			}),
		})
	if err != nil {
		w.log.Error("could not cache Workloads", zap.Error(err))
		return
	}
	ctx, w.stop = context.WithCancel(ctx)
	w.informer, w.known = informer, true
	go informer.RunWithContext(ctx)
	w.log.Info("the cluster serves Workloads; they decide which replicas are admitted")
}

func (w *workloadCache) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known = true
	if w.informer == nil {
		return
	}
	w.stop()
	w.informer, w.stop = nil, nil
	w.log.Info("the cluster no longer serves Workloads; scheduled Pods count as admitted")
}

// settled: it is known whether Workloads are served, and those that are have been read.
func (w *workloadCache) settled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known && (w.informer == nil || w.informer.HasSynced())
}

// of lists the Workloads of the Pods, the one with that UID, and those that may be the deployment's by their names, and says whether the cluster serves Workloads. An API that
// has just appeared is not counted as served until it has been read: a gate that nobody has seen must not refuse anybody.
func (w *workloadCache) of(podUIDs []string, uid, deployment string) (workloads []target.Workload, served bool) {
	w.mu.Lock()
	informer := w.informer
	w.mu.Unlock()
	if informer == nil || !informer.HasSynced() {
		return nil, false
	}
	found := map[string]target.Workload{}
	for _, pod := range podUIDs {
		for _, c := range byIndex[*cachedWorkload](informer, byPod, pod) {
			found[string(c.UID)] = c.workload
		}
	}
	for _, c := range byIndex[*cachedWorkload](informer, byUID, uid) {
		found[uid] = c.workload
	}
	for _, c := range byIndex[*cachedWorkload](informer, byOwner, deployment) {
		found[string(c.UID)] = c.workload
	}
	for _, workload := range found {
		workloads = append(workloads, workload)
	}
	return workloads, true
}
