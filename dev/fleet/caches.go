package fleet

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"gpustack.ai/model-deployment-scaler/internal/target"
)

// caches follow the deployments, their Pods and their Workloads in all namespaces.
type caches struct {
	dynamic                      dynamicinformer.DynamicSharedInformerFactory
	kube                         informers.SharedInformerFactory
	pods, deployments, workloads cache.SharedIndexInformer
}

func newCaches(kube kubernetes.Interface, dyn dynamic.Interface) *caches {
	ours := informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = labels.Set{target.NameLabel: target.NameValue}.String()
	})
	c := &caches{
		dynamic: dynamicinformer.NewDynamicSharedInformerFactory(dyn, 0),
		kube:    informers.NewSharedInformerFactoryWithOptions(kube, 0, ours),
	}
	c.pods = c.kube.Core().V1().Pods().Informer()
	c.deployments = c.dynamic.ForResource(deployments).Informer()
	c.workloads = c.dynamic.ForResource(workloads).Informer()
	return c
}

// start waits for the first lists; that takes as long as the CRDs of dev/crds are missing.
func (c *caches) start(ctx context.Context) error {
	c.kube.StartWithContext(ctx)
	c.dynamic.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), c.pods.HasSynced, c.deployments.HasSynced, c.workloads.HasSynced) {
		return fmt.Errorf("reading the cluster for the fleet: %w", ctx.Err())
	}
	return nil
}

// stop waits for the informers, whose context has ended.
func (c *caches) stop() {
	c.kube.Shutdown()
	c.dynamic.Shutdown()
}

// view is one look at the caches.
type view struct {
	deployments []*unstructured.Unstructured
	pods        map[string]*corev1.Pod // by UID
	workloads   map[string]*unstructured.Unstructured
}

func (c *caches) view() view {
	v := view{pods: make(map[string]*corev1.Pod), workloads: make(map[string]*unstructured.Unstructured)}
	for _, object := range c.deployments.GetStore().List() {
		v.deployments = append(v.deployments, object.(*unstructured.Unstructured))
	}
	for _, object := range c.pods.GetStore().List() {
		if pod := object.(*corev1.Pod); ours(pod) {
			v.pods[string(pod.UID)] = pod
		}
	}
	for _, object := range c.workloads.GetStore().List() {
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
