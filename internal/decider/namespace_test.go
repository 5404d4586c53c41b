package decider

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
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

// deleteNamespace leaves it to the namespace controller, which deletes everything in it, and ends its Pods as a kubelet does.
func (w *world) deleteNamespace() {
	w.t.Helper()
	ctx, core := w.t.Context(), w.client.Core.CoreV1()
	require.NoError(w.t, core.Namespaces().Delete(ctx, w.namespace, metav1.DeleteOptions{}))
	w.eventually("it is gone", func() bool {
		now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
		require.NoError(w.t, core.Pods(w.namespace).DeleteCollection(ctx, now, metav1.ListOptions{}))
		_, err := core.Namespaces().Get(ctx, w.namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}
