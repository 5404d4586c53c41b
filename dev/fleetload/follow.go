package main

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/kube"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// follower sees what arrives at the API server, as any other client does.
type follower struct {
	mu       sync.Mutex
	bound    map[deployment]bool      // scalers that hold their target
	decided  map[deployment]time.Time // targets: when the first decision was seen
	reported map[deployment]time.Time // scalers: when the status told of one
}

// follow watches targets and scalers until ctx ends.
func follow(ctx context.Context, g *errgroup.Group, config *rest.Config, c *kube.Client) (*follower, error) {
	f := &follower{bound: map[deployment]bool{}, decided: map[deployment]time.Time{}, reported: map[deployment]time.Time{}}
	metadatas, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	targets := metadatas.Resource(schema.GroupVersionResource{Group: target.GroupName, Version: c.Version, Resource: target.Resource})
	scalers := c.Scalers("")
	informers := []cache.SharedInformer{
		newInformer(&metav1.PartialObjectMetadata{}, f.target,
			func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return targets.List(ctx, o) }, targets.Watch),
		newInformer(&workerv1.ModelDeploymentScaler{}, f.scaler,
			func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return scalers.List(ctx, o) }, scalers.Watch),
	}
	for _, informer := range informers {
		g.Go(func() error { informer.RunWithContext(ctx); return nil })
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return nil, fmt.Errorf("following the fleet: %w", context.Cause(ctx))
		}
	}
	return f, nil
}

func newInformer(example runtime.Object, see func(any), list func(context.Context, metav1.ListOptions) (runtime.Object, error),
	watching func(context.Context, metav1.ListOptions) (watch.Interface, error),
) cache.SharedInformer {
	informer := cache.NewSharedInformer(&cache.ListWatch{ListWithContextFunc: list, WatchFuncWithContext: watching}, example, 0)
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // fails only when the informer has ended
		AddFunc: see, UpdateFunc: func(_, o any) { see(o) },
	})
	return informer
}

func (f *follower) target(o any) {
	t, ok := o.(*metav1.PartialObjectMetadata)
	if !ok || t.Annotations[fence.DecisionAnnotation] == "" {
		return
	}
	note(f, f.decided, deployment{t.Namespace, t.Name})
}

func (f *follower) scaler(o any) {
	s, ok := o.(*workerv1.ModelDeploymentScaler)
	if !ok {
		return
	}
	name := deployment{s.Namespace, s.Name}
	f.mu.Lock()
	f.bound[name] = meta.IsStatusConditionTrue(s.Status.Conditions, workerv1.ConditionActive)
	f.mu.Unlock()
	if s.Status.LastCommit != nil {
		note(f, f.reported, name)
	}
}

// note keeps the first time.
func note(f *follower, times map[deployment]time.Time, d deployment) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := times[d]; !known {
		times[d] = time.Now()
	}
}

// active is how many scalers hold their target.
func (f *follower) active() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, yes := range f.bound {
		if yes {
			n++
		}
	}
	return n
}

// times are copies of when decisions and reports were first seen.
func (f *follower) times() (decided, reported map[deployment]time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.decided), maps.Clone(f.reported)
}
