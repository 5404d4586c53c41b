package e2e

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
)

// U-M01: deciders first, then a scaler, then the definition is the wrong order of an uninstall. Not parallel: all scalers go.
func TestAReinstallHealsWhatWasUninstalledInTheWrongOrder(t *testing.T) {
	s := newStage(t)
	s.deploy("chat", "vLLM", 2, quiet)
	chat := policy{name: "chat", target: "chat", mode: workerv1.ModeActive, min: 1, max: 5}
	s.scale(chat)
	s.bound("chat", "chat")

	for _, p := range s.Pods("decider") {
		require.NoError(t, s.Runner.Signal(p.Name, syscall.SIGSTOP))
	}
	require.NoError(t, s.Scalers(s.namespace).Delete(t.Context(), "chat", metav1.DeleteOptions{}))
	definition := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	definitions, name := s.Dynamic.Resource(definition), workerv1.Resource+"."+workerv1.GroupName
	require.NoError(t, definitions.Delete(t.Context(), name, metav1.DeleteOptions{}))
	require.NotNil(t, s.scaler("chat").DeletionTimestamp, "it hangs, and the definition with it")

	for _, p := range s.Pods("decider") {
		require.NoError(t, s.Runner.Signal(p.Name, syscall.SIGCONT))
	}
	s.eventually("the definition is gone", func() bool {
		_, err := definitions.Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	require.NotContains(t, s.deployment("chat").Annotations, fence.BindingAnnotation, "the binding went before its scaler")
	text, err := os.ReadFile(filepath.Join("..", "..", "manifests", "crds", "worker.gpustack.ai_modeldeploymentscalers.yaml"))
	require.NoError(t, err)
	s.eventually("the definition can be installed again", func() bool { return s.Apply(t.Context(), "", string(text)) == nil })
	s.eventually("and scalers with it", func() bool {
		_, err := s.Scalers(s.namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
	s.scale(chat)
	s.bound("chat", "chat")
}
