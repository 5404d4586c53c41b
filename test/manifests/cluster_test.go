package manifests

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

const bound = `
apiVersion: worker.gpustack.ai/v1
kind: ModelDeployment
metadata:
  name: bound
  finalizers: [example.com/keep]
  annotations:
    ` + fence.BindingAnnotation + `: '{"scalerName":"chat","scalerUID":"u1","term":1}'
    ` + fence.DecisionAnnotation + `: '{"decisionID":"e-1.1.up","term":1,"vector":{"server":2}}'
spec:
  replicas: 2
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
	create(t, client, target.Resource, bound)
	create(t, client, workerv1.Resource, scaler)
	install(t, cluster)

	tests := []struct {
		name     string
		resource string
		object   string
		patch    string
		sub      []string
		guarded  string // webhook that the write waits for; empty: none
	}{
		{"a label of a deployment", target.Resource, "chat", `{"metadata":{"labels":{"a":"b"}}}`, nil, ""},
		{"another field of a deployment", target.Resource, "chat", `{"spec":{"engine":{"version":"1"}}}`, nil, ""},
		{"the status of a deployment", target.Resource, "chat", `{"status":{"phase":"Ready"}}`, []string{"status"}, ""},
		{"a count of a deployment", target.Resource, "chat", counts(3), nil, fenceTarget},
		{"a role more of a deployment", target.Resource, "chat", `{"spec":{"roles":[{"name":"server","instanceType":"a100","replicas":2},{"name":"two","instanceType":"a100"}]}}`, nil, fenceTarget},
		{"a binding", target.Resource, "chat", annotation(fence.BindingAnnotation, `"x"`), nil, fenceTarget},
		{"an empty binding", target.Resource, "chat", annotation(fence.BindingAnnotation, `""`), nil, fenceTarget},
		{"a decision", target.Resource, "chat", annotation(fence.DecisionAnnotation, `"x"`), nil, fenceTarget},
		{"an empty decision", target.Resource, "chat", annotation(fence.DecisionAnnotation, `""`), nil, fenceTarget},

		{"a label of a bound deployment", target.Resource, "bound", `{"metadata":{"labels":{"a":"b"}}}`, nil, ""},
		{"another annotation of a bound deployment", target.Resource, "bound", annotation("note", `"x"`), nil, ""},
		{"another field of a bound deployment", target.Resource, "bound", `{"spec":{"engine":{"version":"1"}}}`, nil, ""},
		{"the status of a bound deployment", target.Resource, "bound", `{"status":{"phase":"Ready"}}`, []string{"status"}, ""},
		{"the finalizers of a bound deployment", target.Resource, "bound", `{"metadata":{"finalizers":["example.com/other"]}}`, nil, ""},
		{"counts of a bound deployment", target.Resource, "bound", counts(3), nil, fenceTarget},
		{"a binding that is emptied", target.Resource, "bound", annotation(fence.BindingAnnotation, `""`), nil, fenceTarget},
		{"a binding that is removed", target.Resource, "bound", annotation(fence.BindingAnnotation, `null`), nil, fenceTarget},
		{"a decision that is emptied", target.Resource, "bound", annotation(fence.DecisionAnnotation, `""`), nil, fenceTarget},
		{"a decision that is removed", target.Resource, "bound", annotation(fence.DecisionAnnotation, `null`), nil, fenceTarget},
		{"all annotations that are removed", target.Resource, "bound", `{"metadata":{"annotations":null}}`, nil, fenceTarget},

		{"a label of a scaler", workerv1.Resource, "chat", `{"metadata":{"labels":{"a":"b"}}}`, nil, ""},
		{"an annotation of a scaler", workerv1.Resource, "chat", annotation("note", `"x"`), nil, ""},
		{"the status of a scaler", workerv1.Resource, "chat", `{"status":{"observedGeneration":1}}`, []string{"status"}, ""},
		{"the mode of a scaler", workerv1.Resource, "chat", `{"spec":{"mode":"Active"}}`, nil, mutateScaler},
		{"the finalizers of a scaler", workerv1.Resource, "chat", `{"metadata":{"finalizers":null}}`, nil, ""},
	}
	for _, version := range workerv1.Versions {
		for _, tt := range tests {
			t.Run(tt.name+" in "+version, func(t *testing.T) {
				where := schema.GroupVersionResource{Group: workerv1.GroupName, Version: version, Resource: tt.resource}
				_, err := client.Resource(where).Namespace(user).Patch(t.Context(), tt.object, types.MergePatchType, []byte(tt.patch), metav1.PatchOptions{}, tt.sub...)
				requireGuarded(t, tt.guarded, err)
			})
		}
	}
	t.Run("a scale, should a cluster serve it", func(t *testing.T) {
		serveScale(t, cluster)
		scale := func() error {
			_, err := client.Resource(resource(target.Resource)).Namespace(user).Patch(t.Context(), "bound", types.MergePatchType,
				[]byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{}, "scale")
			return err
		}
		require.Eventually(t, func() bool { return !apierrors.IsNotFound(scale()) }, 90*time.Second, 50*time.Millisecond, "the scale is served")
		requireGuarded(t, fenceTarget, scale())
	})
	t.Run("what brings the webhook back", func(t *testing.T) { recoverable(t, cluster) })
	t.Run("deleting them", func(t *testing.T) {
		for _, object := range []string{"chat", "bound"} {
			require.NoError(t, client.Resource(resource(target.Resource)).Namespace(user).Delete(t.Context(), object, metav1.DeleteOptions{}))
		}
		require.NoError(t, client.Resource(resource(workerv1.Resource)).Namespace(user).Delete(t.Context(), "chat", metav1.DeleteOptions{}))
		_, err := client.Resource(resource(target.Resource)).Namespace(user).Patch(t.Context(), "bound", types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		require.NoError(t, err, "a finalizer of a bound deployment under deletion")
		cluster.Kubectl(t, "delete", "namespace", user, "--wait=false")
	})
}

func counts(replicas int) string {
	return fmt.Sprintf(`{"spec":{"roles":[{"name":"server","instanceType":"a100","replicas":%d}]}}`, replicas)
}

func annotation(name, value string) string {
	return fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, name, value)
}

func requireGuarded(t *testing.T, by string, err error) {
	t.Helper()
	if by == "" {
		require.NoError(t, err)
		return
	}
	require.ErrorContains(t, err, `failed calling webhook "`+by+`"`)
}

// serveScale adds the subresource to the definition of deployments, for as long as the test runs.
func serveScale(t *testing.T, cluster *testcluster.Cluster) {
	t.Helper()
	for i := range workerv1.Versions {
		cluster.Kubectl(t, "patch", "crd", target.Resource+"."+target.GroupName, "--type=json", "-p", fmt.Sprintf(
			`[{"op":"add","path":"/spec/versions/%d/subresources/scale","value":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}}]`, i))
	}
	t.Cleanup(func() {
		for i := range workerv1.Versions {
			cluster.Kubectl(t, "patch", "crd", target.Resource+"."+target.GroupName, "--type=json", "-p",
				fmt.Sprintf(`[{"op":"remove","path":"/spec/versions/%d/subresources/scale"}]`, i))
		}
	})
}

// recoverable: the fence must not be able to block its own recovery.
func recoverable(t *testing.T, cluster *testcluster.Cluster) {
	t.Helper()
	for _, command := range []string{
		"rollout restart deployment webhook -n " + namespace,
		"scale deployment webhook --replicas=3 -n " + namespace,
		"set image deployment webhook webhook=model-deployment-scaler/webhook:other -n " + namespace,
		"label deployment webhook a=b -n " + namespace,
		"run probe --image=model-deployment-scaler/webhook:dev -n " + user,
		"label pod probe a=b -n " + user,
		"delete pod probe --grace-period=0 --force -n " + user,
		"create secret generic other -n " + namespace,
		"create namespace webhook-outage-other",
		"delete namespace webhook-outage-other --wait=false",
		"apply --server-side --force-conflicts -k manifests/overlays/dev",
	} {
		cluster.Kubectl(t, strings.Fields(command)...)
	}
	core, err := kubernetes.NewForConfig(cluster.Config(t))
	require.NoError(t, err)
	leases := core.CoordinationV1().Leases(namespace)
	lease, err := leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "decider"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	lease.Spec.HolderIdentity = new("one")
	_, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, leases.Delete(t.Context(), lease.Name, metav1.DeleteOptions{}))
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
	for kind, text := range map[string]string{workerv1.Resource: scaler, target.Resource: bound} { // of one configuration each
		var probe unstructured.Unstructured
		require.NoError(t, yaml.Unmarshal([]byte(text), &probe.Object))
		probe.SetName("probe")
		require.Eventually(t, func() bool {
			_, err := client.Resource(resource(kind)).Namespace("default").Create(t.Context(), &probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err != nil
		}, 90*time.Second, 50*time.Millisecond)
	}
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
