package manifests

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/dev/testcluster"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

func TestMain(m *testing.M) { os.Exit(testcluster.Run(m)) }

const user = "webhook-outage" // namespace of the objects that users write

const deployment = `
apiVersion: worker.gpustack.ai/v1
kind: ModelDeployment
metadata: {name: chat}
spec:
  model: {name: chat}
  engine: {name: vLLM}
  roles: [{name: server, instanceType: a100, replicas: 2}]
`

const scaler = `
apiVersion: worker.gpustack.ai/v1
kind: ModelDeploymentScaler
metadata: {name: chat, finalizers: [example.com/keep]}
spec:
  targetRef: {name: chat}
  roles: [{name: server, maxReplicas: 4}]
  algorithm:
    type: Proportional
    proportional: {metric: QueueDepth, roleTargets: [{name: server, target: "8"}]}
`

// No webhook runs in these tests: what the webhooks guard must fail, and everything else must go on.
func TestAnOutageOfTheWebhookStopsGuardedWritesOnly(t *testing.T) {
	cluster := testcluster.Get(t)
	cluster.Apply(t, "manifests/crds", "dev/crds/modeldeployments.yaml")
	client, err := dynamic.NewForConfig(cluster.Config(t))
	require.NoError(t, err)
	cluster.Kubectl(t, "create", "namespace", user)
	create(t, client, target.Resource, deployment)
	create(t, client, workerv1.Resource, scaler)
	install(t, cluster)

	tests := []struct {
		name     string
		resource string
		patch    string
		sub      []string
		guarded  string // webhook that the write waits for; empty: none
	}{
		{"a label of a deployment", target.Resource, `{"metadata":{"labels":{"a":"b"}}}`, nil, ""},
		{"another field of a deployment", target.Resource, `{"spec":{"engine":{"version":"1"}}}`, nil, ""},
		{"the status of a deployment", target.Resource, `{"status":{"phase":"Ready"}}`, []string{"status"}, ""},
		{"a count of a deployment", target.Resource, `{"spec":{"roles":[{"name":"server","instanceType":"a100","replicas":3}]}}`, nil, fenceTarget},
		{"a binding", target.Resource, `{"metadata":{"annotations":{"` + fence.BindingAnnotation + `":"x"}}}`, nil, fenceTarget},
		{"a decision", target.Resource, `{"metadata":{"annotations":{"` + fence.DecisionAnnotation + `":"x"}}}`, nil, fenceTarget},
		{"a label of a scaler", workerv1.Resource, `{"metadata":{"labels":{"a":"b"}}}`, nil, ""},
		{"the status of a scaler", workerv1.Resource, `{"status":{"observedGeneration":1}}`, []string{"status"}, ""},
		{"the mode of a scaler", workerv1.Resource, `{"spec":{"mode":"Active"}}`, nil, mutateScaler},
		{"the finalizers of a scaler", workerv1.Resource, `{"metadata":{"finalizers":null}}`, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := client.Resource(resource(tt.resource)).Namespace(user).Patch(t.Context(), "chat", types.MergePatchType, []byte(tt.patch), metav1.PatchOptions{}, tt.sub...)
			if tt.guarded == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, `failed calling webhook "`+tt.guarded+`"`)
		})
	}
	t.Run("deleting both", func(t *testing.T) {
		for _, name := range []string{workerv1.Resource, target.Resource} {
			require.NoError(t, client.Resource(resource(name)).Namespace(user).Delete(t.Context(), "chat", metav1.DeleteOptions{}), name)
		}
	})
}

// The namespace enforces the Pod security standard "restricted"; the API server judges, in a dry run.
func TestPodsAreAdmittedToTheirNamespace(t *testing.T) {
	cluster := testcluster.Get(t)
	install(t, cluster)
	client, err := kubernetes.NewForConfig(cluster.Config(t))
	require.NoError(t, err)
	for _, component := range components {
		template := one[*appsv1.Deployment](t, render(t, "overlays/dev"), component).Spec.Template
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Name = component
		dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		_, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod, dry)
		require.NoError(t, err)

		pod.Spec.Containers[0].SecurityContext.Capabilities = nil
		_, err = client.CoreV1().Pods(namespace).Create(t.Context(), pod, dry)
		require.ErrorContains(t, err, `violates PodSecurity "restricted`)
	}
}

// install applies the development overlay, waits until its webhooks are in force, and takes them away afterwards.
func install(t *testing.T, cluster *testcluster.Cluster) {
	t.Helper()
	cluster.Kubectl(t, "apply", "--server-side", "-k", "manifests/overlays/dev")
	core, err := kubernetes.NewForConfig(cluster.Config(t))
	require.NoError(t, err)
	t.Cleanup(func() {
		hooks := core.AdmissionregistrationV1()
		require.NoError(t, hooks.MutatingWebhookConfigurations().Delete(context.Background(), namespace, metav1.DeleteOptions{}))
		require.NoError(t, hooks.ValidatingWebhookConfigurations().Delete(context.Background(), namespace, metav1.DeleteOptions{}))
	})
	client, err := dynamic.NewForConfig(cluster.Config(t))
	require.NoError(t, err)
	var probe unstructured.Unstructured
	require.NoError(t, yaml.Unmarshal([]byte(scaler), &probe.Object))
	probe.SetName("probe")
	require.Eventually(t, func() bool {
		_, err := client.Resource(resource(workerv1.Resource)).Namespace("default").Create(t.Context(), &probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	}, 30*time.Second, 50*time.Millisecond)
}

func create(t *testing.T, client dynamic.Interface, name, text string) {
	t.Helper()
	var object unstructured.Unstructured
	require.NoError(t, yaml.Unmarshal([]byte(text), &object.Object))
	_, err := client.Resource(resource(name)).Namespace(user).Create(t.Context(), &object, metav1.CreateOptions{})
	require.NoError(t, err)
}

func resource(name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: workerv1.GroupName, Version: "v1", Resource: name}
}
