package decider

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/kube"
)

func TestANamespaceThatVanishesUnderLoadLeavesNothing(t *testing.T) {
	w := newWorld(t)
	l := w.lead()
	const others = 20
	w.sampler.load.Store(8)
	w.scale("s", workerv1.ModeActive)
	for i := range others {
		name := fmt.Sprintf("md-%d", i)
		require.NoError(t, w.makeTarget(t.Context(), name))
		_, err := w.client.Scalers(w.namespace).Create(t.Context(), scalerOf(name, w.namespace, name, workerv1.ModeActive), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	w.eventually("all targets are bound, and all scalers guard that", func() bool {
		list, err := w.client.Scalers(w.namespace).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		guarded := 0
		for _, s := range list.Items {
			if len(s.Finalizers) == 1 && s.Finalizers[0] == kube.Finalizer && w.condition(s.Name, workerv1.ConditionActive) == "True/Active" {
				guarded++
			}
		}
		return guarded == 1+others
	})
	w.eventually("the model is ready", func() bool { return w.scaler("s").Status.Roles[0].ReadyReplicas == 1 })

	w.sampler.load.Store(28)
	w.deleteNamespace()
	w.eventually("all is forgotten", l.keepsNothing)
	w.eventually("the sampler has nothing to do", func() bool { return len(w.sampler.assigned()) == 0 })
	l.requireNothingLeft(t)
}

// deleteNamespace does what a cluster's namespace controller does: everything in it is deleted at once, in no order, and when
// nothing is left the namespace goes.
func (w *world) deleteNamespace() {
	w.t.Helper()
	ctx, now := w.t.Context(), metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	all, namespaces := metav1.ListOptions{}, w.client.Core.CoreV1().Namespaces()
	require.NoError(w.t, namespaces.Delete(ctx, w.namespace, metav1.DeleteOptions{}))
	var deleting errgroup.Group
	deleting.Go(func() error { return w.client.Targets(w.namespace).DeleteCollection(ctx, now, all) })
	deleting.Go(func() error { return w.client.Scalers(w.namespace).DeleteCollection(ctx, now, all) })
	deleting.Go(func() error { return w.client.Core.CoreV1().Pods(w.namespace).DeleteCollection(ctx, now, all) })
	require.NoError(w.t, deleting.Wait())
	w.eventually("nothing is left in it", func() bool { return w.objects(ctx) == 0 })
	namespace, err := namespaces.Get(ctx, w.namespace, metav1.GetOptions{})
	require.NoError(w.t, err)
	namespace.Spec.Finalizers = nil
	_, err = namespaces.Finalize(ctx, namespace, metav1.UpdateOptions{})
	require.NoError(w.t, err)
	w.eventually("it is gone", func() bool {
		_, err := namespaces.Get(ctx, w.namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// objects in the namespace that a decider has to do with.
func (w *world) objects(ctx context.Context) int {
	w.t.Helper()
	targets, err := w.client.Targets(w.namespace).List(ctx, metav1.ListOptions{})
	require.NoError(w.t, err)
	scalers, err := w.client.Scalers(w.namespace).List(ctx, metav1.ListOptions{})
	require.NoError(w.t, err)
	pods, err := w.client.Core.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{})
	require.NoError(w.t, err)
	return len(targets.Items) + len(scalers.Items) + len(pods.Items)
}
