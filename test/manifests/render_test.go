package manifests

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const namespace = "model-deployment-scaler"

var (
	overlays   = []string{"self-managed", "dev", "cert-manager"}
	components = []string{"sampler", "decider", "webhook"}
)

// render returns the objects of a directory under /manifests, decoded strictly. Kinds of cert-manager stay unstructured.
func render(t *testing.T, directory string) []runtime.Object {
	t.Helper()
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../../manifests/"+directory)
	require.NoError(t, err)
	types := runtime.NewScheme()
	require.NoError(t, scheme.AddToScheme(types))
	require.NoError(t, apiextensionsv1.AddToScheme(types))
	decoder := serializer.NewCodecFactory(types, serializer.EnableStrict).UniversalDeserializer()
	var objects []runtime.Object
	for _, resource := range rendered.Resources() {
		body, err := resource.AsYAML()
		require.NoError(t, err)
		if resource.GetGvk().Group == "cert-manager.io" {
			foreign := &unstructured.Unstructured{}
			require.NoError(t, yaml.Unmarshal(body, &foreign.Object))
			objects = append(objects, foreign)
			continue
		}
		object, _, err := decoder.Decode(body, nil, nil)
		require.NoError(t, err, "%s %s", resource.GetKind(), resource.GetName())
		objects = append(objects, object)
	}
	return objects
}

// all returns the objects of one type.
func all[T runtime.Object](objects []runtime.Object) []T {
	var found []T
	for _, object := range objects {
		if o, ok := object.(T); ok {
			found = append(found, o)
		}
	}
	return found
}

// one returns the only object of a type with that name.
func one[T interface {
	runtime.Object
	GetName() string
}](t *testing.T, objects []runtime.Object, name string) T {
	t.Helper()
	var found []T
	for _, o := range all[T](objects) {
		if o.GetName() == name {
			found = append(found, o)
		}
	}
	require.Len(t, found, 1, "objects of that type with the name %s", name)
	return found[0]
}

func TestOverlaysRender(t *testing.T) {
	for _, overlay := range overlays {
		t.Run(overlay, func(t *testing.T) {
			objects := render(t, "overlays/"+overlay)
			require.Len(t, all[*apiextensionsv1.CustomResourceDefinition](objects), 1)
			require.Len(t, all[*appsv1.Deployment](objects), len(components))
			require.Len(t, all[*corev1.Namespace](objects), 1)
			for _, object := range objects {
				meta, ok := object.(interface {
					GetName() string
					GetNamespace() string
				})
				require.True(t, ok)
				if meta.GetNamespace() != "" {
					require.Equal(t, namespace, meta.GetNamespace(), meta.GetName())
				}
			}
		})
	}
}

func TestEverythingRunsTwice(t *testing.T) {
	for _, overlay := range overlays {
		for _, component := range components {
			require.EqualValues(t, 2, *one[*appsv1.Deployment](t, render(t, "overlays/"+overlay), component).Spec.Replicas, "%s in %s", component, overlay)
		}
	}
}

// The development overlay is what is shipped; with cert-manager, deciders and webhooks have files beside.
func TestDevelopmentRunsWhatIsShipped(t *testing.T) {
	dev, shipped := render(t, "overlays/dev"), render(t, "overlays/cert-manager")
	require.Equal(t, render(t, "overlays/self-managed"), dev)
	for _, component := range components {
		want, got := one[*appsv1.Deployment](t, shipped, component), one[*appsv1.Deployment](t, dev, component)
		if component != "sampler" {
			pod := &want.Spec.Template.Spec
			pod.Volumes, pod.Containers[0].VolumeMounts = nil, nil
			pod.Containers[0].Args = slices.DeleteFunc(pod.Containers[0].Args, func(arg string) bool { return strings.HasPrefix(arg, "--tls-") })
		}
		require.Equal(t, want, got)
		require.Equal(t, one[*corev1.Service](t, shipped, component), one[*corev1.Service](t, dev, component))
	}
}
