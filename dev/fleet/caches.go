package fleet

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"gpustack.ai/model-deployment-scaler/internal/target"
)

// retryBackoff is that of a watch that failed. Informers wait for up to a minute when an API server has been restarted a few
// times, and the operator that is played here would seem to hang for as long.
var retryBackoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 2 * time.Second}

// caches follow the deployments, their Pods and their Workloads in all namespaces.
type caches struct {
	pods, deployments, workloads cache.Store
	reflectors                   []*cache.Reflector
	running                      sync.WaitGroup
}

func newCaches(kube kubernetes.Interface, dyn dynamic.Interface) *caches {
	c := &caches{}
	pods := kube.CoreV1().Pods(metav1.NamespaceAll)
	selector := labels.Set{target.NameLabel: target.NameValue}.String()
	c.pods = c.follow(&corev1.Pod{}, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return pods.Watch(ctx, o)
		},
	})
	c.deployments = c.follow(&unstructured.Unstructured{}, listWatch(dyn.Resource(deployments)))
	c.workloads = c.follow(&unstructured.Unstructured{}, listWatch(dyn.Resource(workloads)))
	return c
}

func listWatch(client dynamic.ResourceInterface) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) },
		WatchFuncWithContext: client.Watch,
	}
}

// follow a kind in a store of its own.
func (c *caches) follow(kind runtime.Object, lw cache.ListerWatcher) cache.Store {
	store := cache.NewStore(cache.DeletionHandlingMetaNamespaceKeyFunc)
	c.reflectors = append(c.reflectors, cache.NewReflectorWithOptions(lw, kind, store, cache.ReflectorOptions{Backoff: &retryBackoff}))
	return store
}

// start waits for the first lists; that takes as long as the CRDs of dev/crds are missing.
func (c *caches) start(ctx context.Context) error {
	for _, r := range c.reflectors {
		c.running.Go(func() { r.RunWithContext(ctx) })
	}
	listed := func(context.Context) (bool, error) {
		return !slices.ContainsFunc(c.reflectors, func(r *cache.Reflector) bool { return r.LastSyncResourceVersion() == "" }), nil
	}
	if err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, listed); err != nil {
		return fmt.Errorf("reading the cluster for the fleet: %w", err)
	}
	return nil
}

// stop waits for the watches, whose context has ended.
func (c *caches) stop() { c.running.Wait() }

// view is one look at the caches.
type view struct {
	deployments []*unstructured.Unstructured
	pods        map[string]*corev1.Pod // by UID
	workloads   map[string]*unstructured.Unstructured
}

func (c *caches) view() view {
	v := view{pods: make(map[string]*corev1.Pod), workloads: make(map[string]*unstructured.Unstructured)}
	for _, object := range c.deployments.List() {
		v.deployments = append(v.deployments, object.(*unstructured.Unstructured))
	}
	for _, object := range c.pods.List() {
		if pod := object.(*corev1.Pod); ours(pod) {
			v.pods[string(pod.UID)] = pod
		}
	}
	for _, object := range c.workloads.List() {
		u := object.(*unstructured.Unstructured)
		v.workloads[string(u.GetUID())] = u
	}
	return v
}

// ours are Pods controlled by a ModelDeployment: engines, not routers.
func ours(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == target.Kind
}
