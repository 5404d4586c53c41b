package kube

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// served is a cluster that serves resources by group and version; one that is there and empty does not answer now.
type served map[string][]string

func (s served) ServerResourcesForGroupVersionWithContext(_ context.Context, groupVersion string) (*metav1.APIResourceList, error) {
	names, found := s[groupVersion]
	if !found {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, groupVersion)
	}
	if len(names) == 0 {
		return nil, apierrors.NewServiceUnavailable("starting")
	}
	list := &metav1.APIResourceList{}
	for _, name := range names {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
	}
	return list, nil
}

func TestTheClusterIsNeverThatOfSomebodysHomeFolder(t *testing.T) {
	written := func(server string) string {
		config := clientcmdapi.NewConfig()
		config.Clusters["c"] = &clientcmdapi.Cluster{Server: server}
		config.Contexts["c"], config.CurrentContext = &clientcmdapi.Context{Cluster: "c"}, "c"
		path := filepath.Join(t.TempDir(), "config")
		require.NoError(t, clientcmd.WriteToFile(*config, path))
		return path
	}
	home := clientcmd.RecommendedHomeFile
	t.Cleanup(func() { clientcmd.RecommendedHomeFile = home })
	clientcmd.RecommendedHomeFile = written("https://home")

	t.Setenv("KUBECONFIG", "")
	_, err := LoadConfig("")
	require.ErrorContains(t, err, "give --kubeconfig")
	t.Setenv("KUBECONFIG", written("https://env"))
	config, err := LoadConfig("")
	require.NoError(t, err)
	require.Equal(t, "https://env", config.Host)
	config, err = LoadConfig(written("https://flag"))
	require.NoError(t, err)
	require.Equal(t, "https://flag", config.Host)
}

func TestTheVersionIsTheFirstThatServesBothKinds(t *testing.T) {
	both := []string{workerv1.Resource, target.Resource}
	for name, c := range map[string]struct {
		cluster    served
		candidates []string
		version    string
	}{
		"v1 when both versions serve both": {
			served{"worker.gpustack.ai/v1": both, "worker.gpustack.ai/v1alpha1": both}, workerv1.Versions, "v1"},
		"v1alpha1 where v1 is an aggregated API that knows deployments alone": {
			served{"worker.gpustack.ai/v1": {target.Resource}, "worker.gpustack.ai/v1alpha1": both}, workerv1.Versions, "v1alpha1"},
		"v1alpha1 where v1 does not answer": {
			served{"worker.gpustack.ai/v1": {}, "worker.gpustack.ai/v1alpha1": both}, workerv1.Versions, "v1alpha1"},
		"the one that was asked for": {
			served{"worker.gpustack.ai/v1": both, "worker.gpustack.ai/v1alpha1": both}, []string{"v1alpha1"}, "v1alpha1"},
		"none where nobody has installed deployments": {
			served{"worker.gpustack.ai/v1": {workerv1.Resource}}, workerv1.Versions, ""},
	} {
		t.Run(name, func(t *testing.T) {
			version, err := servedVersion(t.Context(), c.cluster, c.candidates)
			require.Equal(t, c.version, version)
			require.Equal(t, c.version == "", err != nil)
		})
	}
}

func TestACommonVersionThatMayYetAnswerIsWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		cluster served
		wait    bool
	}{
		"no version answers":                          {served{"worker.gpustack.ai/v1": {}, "worker.gpustack.ai/v1alpha1": {}}, true},
		"one does not answer, the other is not there": {served{"worker.gpustack.ai/v1alpha1": {}}, true},
		"neither is there":                            {served{}, false},
		"one knows deployments alone":                 {served{"worker.gpustack.ai/v1": {target.Resource}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := servedVersion(t.Context(), c.cluster, workerv1.Versions)
			require.Equal(t, c.wait, Unreachable(err), "%v", err)
			require.Equal(t, !c.wait, errors.Is(err, ErrUnfit))
		})
	}
}

func TestBothVersionsReadAndWriteTheSameScaler(t *testing.T) {
	w := newWorld(t)
	require.Equal(t, "v1", w.client.Version)
	w.scaler("s", "md")
	older, err := NewClient(t.Context(), w.cluster.Config(t), "v1alpha1")
	require.NoError(t, err)
	s, err := older.Scalers(w.namespace).Get(t.Context(), "s", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "md", s.Spec.TargetRef.Name)
	s, err = NewWriter(older, alwaysHeld{}, testEpoch).WriteStatus(t.Context(), s, fullStatus())
	require.NoError(t, err)
	require.Equal(t, jsonOf(t, fullStatus()), jsonOf(t, s.Status))
}

// installedVersion is a version of our CRD as it is installed.
func installedVersion(t *testing.T) map[string]any {
	t.Helper()
	w := newWorld(t)
	crd, err := w.client.Dynamic.Resource(crdResource).Get(t.Context(), workerv1.Resource+"."+workerv1.GroupName, metav1.GetOptions{})
	require.NoError(t, err)
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	require.NoError(t, err)
	return versions[0].(map[string]any)
}

func TestFieldsThatACRDLacksAreNamed(t *testing.T) {
	properties := []string{"schema", "openAPIV3Schema", "properties"}
	for name, c := range map[string]struct {
		remove  [][]string
		missing []string
	}{
		"the shipped CRD lacks none": {nil, nil},
		"fields of an older release": {
			[][]string{
				{"status", "properties", "exhaustion"}, {"status", "properties", "roles", "items", "properties", "panicUntil"},
				{"spec", "properties", "behavior", "properties", "scaleDown", "properties", "stepPolicy"},
			},
			[]string{"spec.behavior.scaleDown.stepPolicy", "status.exhaustion", "status.roles[].panicUntil"}},
		"the whole status": {[][]string{{"status"}}, []string{"status"}},
	} {
		t.Run(name, func(t *testing.T) {
			version := installedVersion(t)
			for _, path := range c.remove {
				unstructured.RemoveNestedField(version, append(append([]string(nil), properties...), path...)...)
			}
			require.Equal(t, c.missing, missingFrom(version))
		})
	}
}
