package ownership

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"gpustack.ai/model-deployment-scaler/dev/testcluster"
	"gpustack.ai/model-deployment-scaler/internal/certs/certstest"
	"gpustack.ai/model-deployment-scaler/internal/process"
	"gpustack.ai/model-deployment-scaler/internal/webhook"
)

func TestMain(m *testing.M) { os.Exit(testcluster.Run(m)) }

const (
	namespace = "ownership"
	group     = "worker.gpustack.ai"
	patience  = 90 * time.Second
	often     = 20 * time.Millisecond
)

var (
	versions = []string{"v1", "v1alpha1"}
	users    = map[Actor]rest.ImpersonationConfig{
		Decider:  {UserName: "system:serviceaccount:model-deployment-scaler:decider"},
		User:     {UserName: "jane"},
		Admin:    {UserName: "root", Groups: []string{"system:masters"}},
		GitOps:   {UserName: "system:serviceaccount:argocd:argocd-application-controller"},
		Operator: {UserName: "system:serviceaccount:gpustack-system:gpustack-operator-worker"},
		Neighbor: {UserName: "system:serviceaccount:model-deployment-scaler:webhook"},
	}
)

// world is a real API server with the shipped registration of the webhook, which runs in this process.
type world struct {
	cluster *testcluster.Cluster
	core    kubernetes.Interface
	clients map[Actor]dynamic.Interface
	epoch   string // of the decider that leads
}

// newWorld lets prepare make what nobody could make with the fence in force.
func newWorld(t *testing.T, prepare func(*world)) *world {
	t.Helper()
	w := &world{cluster: testcluster.Get(t), clients: map[Actor]dynamic.Interface{}}
	w.cluster.Apply(t, "manifests/crds", "dev/crds/modeldeployments.yaml")
	config := w.cluster.Config(t)
	config.QPS = -1
	core, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	w.core = core
	w.entitle(t)
	for actor, user := range users {
		config := rest.CopyConfig(config)
		config.Impersonate = user
		w.clients[actor], err = dynamic.NewForConfig(config)
		require.NoError(t, err)
	}
	_, err = core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { w.leave(t) })
	w.lead(t)
	prepare(w)
	w.guard(t)
	return w
}

// leave removes what was made, once the fence is gone.
func (w *world) leave(t *testing.T) {
	ctx := context.Background() // the test's own has ended
	deployments := w.deployments(Admin, "v1")
	list, err := deployments.List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	for _, d := range list.Items {
		_, err := deployments.Patch(ctx, d.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	require.NoError(t, deployments.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	require.NoError(t, w.core.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}))
}

// entitle gives everybody all rights, so that whatever is refused is refused by the fence.
func (w *world) entitle(t *testing.T) {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}
	for _, user := range users {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user.UserName})
	}
	_, err := w.core.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, w.core.RbacV1().ClusterRoleBindings().Delete(context.Background(), namespace, metav1.DeleteOptions{}))
	})
}

func (w *world) lead(t *testing.T) {
	t.Helper()
	lease, err := w.core.CoordinationV1().Leases(namespace).Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "decider"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("one"), LeaseTransitions: new(int32(2)), LeaseDurationSeconds: new(int32(15))},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	w.epoch = string(lease.UID)[:8] + "-2"
}

// guard starts the webhook and registers it.
func (w *world) guard(t *testing.T) {
	t.Helper()
	url, ca := w.serve(t)
	direct := func(c *admissionregistrationv1.WebhookClientConfig) {
		*c = admissionregistrationv1.WebhookClientConfig{URL: new(url + *c.Service.Path), CABundle: ca}
	}
	hooks := w.core.AdmissionregistrationV1()
	validating := shipped[admissionregistrationv1.ValidatingWebhookConfiguration](t, "webhook-validating.yaml")
	for i := range validating.Webhooks {
		direct(&validating.Webhooks[i].ClientConfig)
	}
	_, err := hooks.ValidatingWebhookConfigurations().Create(t.Context(), &validating, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, hooks.ValidatingWebhookConfigurations().Delete(context.Background(), validating.Name, metav1.DeleteOptions{}))
	})
	owned := deployment("probe", Object{Roles: []Role{{"server", 1}}, Binding: new("x")})
	require.Eventually(t, func() bool { // an API server takes a moment to notice a registration
		_, err := w.deployments(User, "v1").Create(t.Context(), owned, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	}, patience, often)
}

// serve runs the webhook as its command line would, on a port of its own.
func (w *world) serve(t *testing.T) (url string, ca []byte) {
	t.Helper()
	authority, err := certstest.NewAuthority("test")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, authority.WriteLeaf(dir, "localhost"))
	o, flags := webhook.NewOptions(), pflag.NewFlagSet("webhook", pflag.ContinueOnError)
	for _, g := range o.Groups() {
		flags.AddFlagSet(g.Flags)
	}
	require.NoError(t, flags.Parse([]string{
		"--kubeconfig=" + w.cluster.Kubeconfig, "--https-address=127.0.0.1:0", "--decider-username=" + users[Decider].UserName,
		"--tls-cert-file=" + filepath.Join(dir, "tls.crt"), "--tls-key-file=" + filepath.Join(dir, "tls.key"),
		"--lease-namespace=" + namespace, "--lease-name=decider",
	}))
	require.NoError(t, o.Validate())
	core, logs := observer.New(zap.InfoLevel)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- webhook.Run(ctx, &process.Process{Log: zap.New(core), Registry: prometheus.NewRegistry(), Health: &process.Health{}, Version: "test"}, o)
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	require.Eventually(t, func() bool { return logs.FilterMessage("serving admission reviews").Len() > 0 }, patience, often)
	address := logs.FilterMessage("serving admission reviews").All()[0].ContextMap()["address"].(string)
	return "https://localhost" + address[strings.LastIndex(address, ":"):], authority.PEM
}

func shipped[T any](t *testing.T, file string) (object T) {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("..", "..", "manifests", "base", file))
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(body, &object))
	return object
}

func (w *world) deployments(actor Actor, version string) dynamic.ResourceInterface {
	return w.clients[actor].Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: "modeldeployments"}).Namespace(namespace)
}

func (w *world) scalers() dynamic.ResourceInterface {
	return w.clients[User].Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "modeldeploymentscalers"}).Namespace(namespace)
}

// scaler makes a scaler; its UID is the answer.
func (w *world) scaler(t *testing.T, name string) string {
	t.Helper()
	created, err := w.scalers().Create(t.Context(), parse(t, `
apiVersion: worker.gpustack.ai/v1
kind: ModelDeploymentScaler
metadata: {name: `+name+`}
spec:
  targetRef: {name: `+name+`}
  roles: [{name: prefill, maxReplicas: 9}, {name: decode, maxReplicas: 9}]
  algorithm:
    type: Proportional
    proportional: {metric: QueueDepth, roleTargets: [{name: prefill, target: "8"}, {name: decode, target: "8"}]}
`), metav1.CreateOptions{})
	require.NoError(t, err)
	return string(created.GetUID())
}

// record writes down in a scaler's status that it is bound to a deployment under term 3.
func (w *world) record(t *testing.T, name string, uid types.UID) {
	t.Helper()
	patch := encode(t, map[string]any{"status": map[string]any{"binding": map[string]any{"targetUID": uid, "term": 3}}})
	_, err := w.scalers().Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	require.NoError(t, err)
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &object.Object))
	return object
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return data
}
