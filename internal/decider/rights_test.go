package decider

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

// asShipped lets deciders of this world act as the service account of the manifests, with its rights.
func (w *world) asShipped() {
	w.t.Helper()
	w.cluster.Kubectl(w.t, "apply", "--server-side", "-f", "manifests/base/namespace.yaml", "-f", "manifests/base/decider-rbac.yaml")
	config, err := clientcmd.LoadFromFile(w.kubeconfig)
	require.NoError(w.t, err)
	config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo].Impersonate = "system:serviceaccount:model-deployment-scaler:decider"
	w.kubeconfig = filepath.Join(w.t.TempDir(), "kubeconfig")
	require.NoError(w.t, clientcmd.WriteToFile(*config, w.kubeconfig))
}

func TestTheRightsOfTheManifestsSuffice(t *testing.T) {
	w := newWorld(t)
	w.asShipped()
	w.cluster.Apply(t, "dev/crds/workloads.yaml")
	w.sampler.load.Store(28)
	d := w.decide("decider", func(o *Options) { o.Namespace = "model-deployment-scaler" })
	w.scale("s", workerv1.ModeActive)
	w.eventually("it grows", func() bool { return w.count() == 4 })
	w.eventually("it reports", func() bool { return w.condition("s", workerv1.ConditionBound) == "True/Bound" })
	w.eventually("it tells", func() bool {
		list, err := w.client.Core.EventsV1().Events(w.namespace).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		return len(list.Items) >= 4
	})
	require.NoError(t, w.client.Scalers(w.namespace).Delete(t.Context(), "s", metav1.DeleteOptions{}))
	w.eventually("it lets go", func() bool {
		_, err := w.client.Scalers(w.namespace).Get(t.Context(), "s", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	require.NoError(t, d.end(t))
	w.cluster.Kubectl(t, "delete", "-f", "dev/crds/workloads.yaml")
}
