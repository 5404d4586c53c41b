package webhook

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/dev/testcluster"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// world is a real API server with the shipped registration of the webhook, which runs in this process.
type world struct {
	t         *testing.T
	core      kubernetes.Interface
	user      actor
	decider   actor
	namespace string
	stop      func() // the webhook
}

// actor writes as somebody.
type actor struct {
	client   dynamic.Interface
	warnings *warnings
}

// warnings collects what the API server warns of.
type warnings struct {
	mu   sync.Mutex
	text []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, text)
}

func (w *warnings) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.text = nil }()
	return strings.Join(w.text, "\n")
}

func newActor(t *testing.T, config *rest.Config, user string) actor {
	t.Helper()
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	collected := &warnings{}
	config.WarningHandler = collected
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	return actor{client, collected}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cluster := testcluster.Get(t)
	cluster.Apply(t, "manifests/crds", "dev/crds/modeldeployments.yaml")
	s := start(t, cluster.Kubeconfig)
	stop := func() { require.NoError(t, s.stop()) }
	t.Cleanup(stop)
	config := cluster.Config(t)
	core, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	w := &world{t: t, core: core, user: newActor(t, config, "jane"), decider: newActor(t, config, deciderUser),
		namespace: "webhook-test", stop: stop}
	_, err = core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	w.register(s)
	return w
}

// register applies the shipped configurations, calling this process instead of the Service.
func (w *world) register(s server) {
	t, registrations := w.t, w.core.AdmissionregistrationV1()
	direct := func(c *admissionregistrationv1.WebhookClientConfig) {
		*c = admissionregistrationv1.WebhookClientConfig{URL: new(s.url + *c.Service.Path), CABundle: s.ca}
	}
	mutating := shipped[admissionregistrationv1.MutatingWebhookConfiguration](t, "webhook-mutating.yaml")
	for i := range mutating.Webhooks {
		direct(&mutating.Webhooks[i].ClientConfig)
	}
	validating := shipped[admissionregistrationv1.ValidatingWebhookConfiguration](t, "webhook-validating.yaml")
	for i := range validating.Webhooks {
		direct(&validating.Webhooks[i].ClientConfig)
	}
	_, err := registrations.MutatingWebhookConfigurations().Create(t.Context(), &mutating, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = registrations.ValidatingWebhookConfigurations().Create(t.Context(), &validating, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = registrations.MutatingWebhookConfigurations().Delete(context.Background(), mutating.Name, metav1.DeleteOptions{})
		_ = registrations.ValidatingWebhookConfigurations().Delete(context.Background(), validating.Name, metav1.DeleteOptions{})
	})
	require.Eventually(t, func() bool { // an API server takes a moment to notice a registration
		created, err := w.user.scalers("v1", w.namespace).Create(t.Context(), policy("probe", "probe"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return false
		}
		kind, _, _ := unstructured.NestedString(created.Object, "spec", "algorithm", "type")
		_, fenced := w.user.deployments("v1", w.namespace).Create(t.Context(), deployment("probe", 1, "x", ""), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return kind == "Proportional" && fenced != nil
	}, patience, tick)
}

func shipped[T any](t *testing.T, file string) (object T) {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("..", "..", "manifests", "base", file))
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(body, &object))
	return object
}

func (a actor) deployments(version, namespace string) dynamic.ResourceInterface {
	return a.client.Resource(gvr(version, target.Resource)).Namespace(namespace)
}

func (a actor) scalers(version, namespace string) dynamic.ResourceInterface {
	return a.client.Resource(gvr(version, workerv1.Resource)).Namespace(namespace)
}

// deployment of one role; an empty annotation is absent.
func deployment(name string, replicas int64, binding, decision string) *unstructured.Unstructured {
	annotations := map[string]any{}
	if binding != "" {
		annotations[fence.BindingAnnotation] = binding
	}
	if decision != "" {
		annotations[fence.DecisionAnnotation] = decision
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "worker.gpustack.ai/v1", "kind": target.Kind,
		"metadata": map[string]any{"name": name, "annotations": annotations},
		"spec": map[string]any{
			"model": map[string]any{"name": "x"}, "engine": map[string]any{"name": "vLLM"},
			"roles": []any{map[string]any{"name": "server", "kind": "Server", "replicas": replicas, "instanceType": "h100"}},
		},
	}}
}

// policy is a scaler that leaves out all it may; edits are applied to its spec.
func policy(name, deployment string, edits ...func(spec map[string]any)) *unstructured.Unstructured {
	spec := map[string]any{
		"targetRef": map[string]any{"name": deployment},
		"roles":     []any{map[string]any{"name": "server", "maxReplicas": int64(4)}},
		"algorithm": map[string]any{"proportional": map[string]any{
			"metric": "QueueDepth", "roleTargets": []any{map[string]any{"name": "server", "target": "8"}},
		}},
	}
	for _, edit := range edits {
		edit(spec)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "worker.gpustack.ai/v1", "kind": workerv1.Kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

func create(t *testing.T, resource dynamic.ResourceInterface, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	created, err := resource.Create(t.Context(), object, metav1.CreateOptions{})
	require.NoError(t, err)
	return created
}

// lead makes the Lease of a decider that leads.
func (w *world) lead() fence.Epoch {
	w.t.Helper()
	lease, err := w.core.CoordinationV1().Leases("default").Create(w.t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "decider"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("one"), LeaseTransitions: new(int32(2)), LeaseDurationSeconds: new(int32(15))},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	return fence.Epoch{LeaseUID: string(lease.UID), Transitions: 2}
}

func merge(t *testing.T, r dynamic.ResourceInterface, name, patch string, dryRun ...string) error {
	t.Helper()
	_, err := r.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: dryRun})
	return err
}

func counts(replicas int) string {
	return fmt.Sprintf(`{"spec": {"roles": [{"name": "server", "kind": "Server", "instanceType": "h100", "replicas": %d}]}}`, replicas)
}

// note is a merge patch of one annotation; nil removes it.
func note(key string, value *string) string {
	if value == nil {
		return fmt.Sprintf(`{"metadata": {"annotations": {%q: null}}}`, key)
	}
	return fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, key, *value)
}

func commit(replicas int, binding fence.Binding, id fence.DecisionID) string {
	decision := fence.Decision{DecisionID: id.String(), Term: binding.Term, Vector: map[string]int32{"server": int32(replicas)}}
	return fmt.Sprintf(`{"metadata": {"annotations": {%q: %q, %q: %q}}, %s`,
		fence.BindingAnnotation, binding.String(), fence.DecisionAnnotation, decision.String(), counts(replicas)[1:])
}

func requireForbidden(t *testing.T, err error, parts ...string) {
	t.Helper()
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	for _, part := range parts {
		require.ErrorContains(t, err, part)
	}
}

func TestTheFenceHoldsOnARealAPIServer(t *testing.T) {
	w := newWorld(t)
	ours, theirs := w.decider.deployments("v1", w.namespace), w.user.deployments("v1", w.namespace)
	scaler := create(t, w.user.scalers("v1", w.namespace), policy("s1", "m1"))
	create(t, theirs, deployment("m1", 1, "", ""))
	binding := fence.Binding{ScalerName: "s1", ScalerUID: string(scaler.GetUID()), Term: 1}
	id := fence.DecisionID{Epoch: "0-0", Sequence: 1, Kind: fence.CommitUp}

	t.Log("an unbound deployment is its user's, ownership annotations excepted")
	require.NoError(t, merge(t, theirs, "m1", counts(2)))
	requireForbidden(t, merge(t, theirs, "m1", note(fence.BindingAnnotation, new(binding.String()))), "create a ModelDeploymentScaler")
	_, err := theirs.Create(t.Context(), deployment("m2", 1, binding.String(), ""), metav1.CreateOptions{})
	requireForbidden(t, err, "leave them out")

	t.Log("no commit without a leader, nor by another epoch")
	err = merge(t, ours, "m1", commit(3, binding, id))
	require.True(t, apierrors.IsServiceUnavailable(err), "%v", err)
	epoch := w.lead()
	requireForbidden(t, merge(t, ours, "m1", commit(3, binding, id)), "of epoch 0-0, and epoch "+epoch.String()+" leads")
	id.Epoch = epoch.String()
	require.NoError(t, merge(t, ours, "m1", commit(3, binding, id)))

	t.Log("a bound deployment's counts and annotations are its scaler's, in every version, for every way to write")
	for _, version := range workerv1.Versions {
		r := w.user.deployments(version, w.namespace)
		requireForbidden(t, merge(t, r, "m1", counts(5)), "belong to ModelDeploymentScaler s1", "server from 3 to 5", "suspend scaler s1")
		requireForbidden(t, merge(t, r, "m1", counts(5), metav1.DryRunAll), "belong to ModelDeploymentScaler s1")
		requireForbidden(t, merge(t, r, "m1", strings.Replace(counts(3), "server", "other", 1)), "other added with 3, server removed")
		requireForbidden(t, merge(t, r, "m1", note(fence.BindingAnnotation, nil)), "is still there")
		requireForbidden(t, merge(t, r, "m1", note(fence.BindingAnnotation, new(""))), "cannot be changed")
		requireForbidden(t, merge(t, r, "m1", note(fence.DecisionAnnotation, nil)), "cannot be changed")
		_, err := r.Apply(t.Context(), "m1", &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "worker.gpustack.ai/" + version, "kind": target.Kind, "metadata": map[string]any{"name": "m1"},
			"spec": map[string]any{"roles": []any{map[string]any{"name": "server", "instanceType": "h100", "replicas": int64(7)}}},
		}}, metav1.ApplyOptions{FieldManager: "gitops", Force: true})
		requireForbidden(t, err, "server from 3 to 7")
	}
	live, err := theirs.Get(t.Context(), "m1", metav1.GetOptions{})
	require.NoError(t, err)
	put := deployment("m1", 3, "", "")
	put.SetResourceVersion(live.GetResourceVersion())
	_, err = theirs.Update(t.Context(), put, metav1.UpdateOptions{})
	requireForbidden(t, err, "is still there")

	t.Log("everything else is anybody's")
	require.NoError(t, merge(t, theirs, "m1", `{"metadata": {"labels": {"a": "b"}}, "spec": {"engine": {"version": "9"}}}`))
	_, err = theirs.Patch(t.Context(), "m1", types.MergePatchType, []byte(`{"status": {"phase": "Ready"}}`), metav1.PatchOptions{}, "status")
	require.NoError(t, err)

	t.Log("the decider commits and releases; it does not repeat itself")
	requireForbidden(t, merge(t, ours, "m1", counts(4)), "without their decision")
	requireForbidden(t, merge(t, ours, "m1", commit(4, binding, id)), "was committed before")
	id.Sequence, id.Kind = 2, fence.CommitDown
	require.NoError(t, merge(t, ours, "m1", commit(2, binding, id)))
	require.NoError(t, merge(t, ours, "m1", note(fence.BindingAnnotation, nil)))
	requireForbidden(t, merge(t, ours, "m1", note(fence.BindingAnnotation, new(binding.String()))), "not over term 1")
	binding.Term = 2
	require.NoError(t, merge(t, ours, "m1", note(fence.BindingAnnotation, new(binding.String()))))

	t.Log("a binding whose scaler is gone can be removed by anybody, and by itself alone")
	require.NoError(t, w.user.scalers("v1", w.namespace).Delete(t.Context(), "s1", metav1.DeleteOptions{}))
	requireForbidden(t, merge(t, theirs, "m1", fmt.Sprintf(`{"metadata": {"annotations": {%q: null}}, %s`, fence.BindingAnnotation, counts(9)[1:])), "belong to")
	require.NoError(t, merge(t, theirs, "m1", note(fence.BindingAnnotation, nil)))
	require.NoError(t, merge(t, theirs, "m1", counts(9)))

	t.Run("scalers get their defaults and a judgement", func(t *testing.T) { judgeScalers(t, w) })
	t.Run("what is refused reads as in the golden file", func(t *testing.T) { sameSentences(t, w) })
	t.Run("targets are read live", func(t *testing.T) { readsLive(t, w) })
	t.Run("letting go works, whatever the target has become", func(t *testing.T) { lettingGoWorks(t, w) })
	t.Run("an outage lets nothing unchecked through, and all else", func(t *testing.T) { withoutWebhook(t, w) })
}

// withoutWebhook stops the webhook of the world where m1 and the scaler s4 exist.
func withoutWebhook(t *testing.T, w *world) {
	w.stop()
	deployments, scalers := w.user.deployments("v1", w.namespace), w.user.scalers("v1", w.namespace)
	require.True(t, apierrors.IsInternalError(merge(t, deployments, "m1", counts(2))), "counts are guarded, bound or not")
	require.True(t, apierrors.IsInternalError(merge(t, deployments, "m1", note(fence.BindingAnnotation, new("x")))))
	require.True(t, apierrors.IsInternalError(merge(t, scalers, "s4", `{"spec": {"suspend": true}}`)))
	require.NoError(t, merge(t, deployments, "m1", `{"metadata": {"labels": {"a": "c"}}, "spec": {"engine": {"version": "10"}}}`))
	require.NoError(t, merge(t, scalers, "s4", `{"metadata": {"finalizers": ["example.com/x"]}}`))
	require.NoError(t, merge(t, scalers, "s4", `{"metadata": {"finalizers": null}}`))
	require.NoError(t, scalers.Delete(t.Context(), "s4", metav1.DeleteOptions{}))
	require.NoError(t, deployments.Delete(t.Context(), "m1", metav1.DeleteOptions{}))
}

// judgeScalers goes on in the world where m1 exists.
func judgeScalers(t *testing.T, w *world) {
	scalers := w.user.scalers("v1", w.namespace)
	older := policy("s2", "absent", func(spec map[string]any) {
		spec["behavior"] = map[string]any{"scaleUp": map[string]any{"maxStepReplicas": int64(0)}, "scaleDown": map[string]any{"stabilizationWindowSeconds": int64(0)}}
	})
	older.SetAPIVersion("worker.gpustack.ai/v1alpha1")
	stored := create(t, w.user.scalers("v1alpha1", w.namespace), older)
	for path, want := range map[string]any{
		"spec.algorithm.type": "Proportional", "spec.algorithm.proportional.tolerance": "0.1",
		"spec.behavior.scaleUp.maxStepReplicas": int64(4), "spec.behavior.scaleUp.stabilizationWindowSeconds": int64(0),
		"spec.behavior.scaleDown.stabilizationWindowSeconds": int64(300), "spec.mode": "Shadow", "spec.rebalance.policy": "Opposing",
	} {
		got, _, err := unstructured.NestedFieldNoCopy(stored.Object, strings.Split(path, ".")...)
		require.NoError(t, err)
		require.Equal(t, want, got, path)
	}

	_, err := scalers.Create(t.Context(), policy("s3", "m1", func(spec map[string]any) {
		spec["roles"] = []any{map[string]any{"name": "server", "maxReplicas": int64(4)}, map[string]any{"name": "decode", "maxReplicas": int64(4)}}
	}), metav1.CreateOptions{})
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	require.ErrorContains(t, err, "spec.roles[1].name")
	require.ErrorContains(t, err, "nothing sizes this role")
	require.ErrorContains(t, err, "ModelDeployment m1 has no such role")

	w.user.warnings.take()
	create(t, scalers, policy("s4", "m1"))
	require.Contains(t, w.user.warnings.take(), "the present count of role server, 9, is outside of 1 to 4")
}

func TestLiveReadsTellAbsenceFromFailure(t *testing.T) {
	cluster := testcluster.Get(t)
	cluster.Apply(t, "manifests/crds", "dev/crds/modeldeployments.yaml")
	c, err := newCluster(cluster.Config(t), &Options{LeaseNamespace: "default", LeaseName: "none"})
	require.NoError(t, err)

	scaler, err := c.Scaler(t.Context(), "default", "nobody")
	require.NoError(t, err)
	require.Nil(t, scaler)
	deployment, err := c.Target(t.Context(), "default", "nothing")
	require.NoError(t, err)
	require.Nil(t, deployment)
	_, err = c.Epoch(t.Context())
	require.ErrorContains(t, err, "reading lease default/none")

	unserved := "v9"
	c.versions.known.Store(&unserved)
	_, err = c.Scaler(t.Context(), "default", "nobody")
	require.Error(t, err, "a version that is served no longer does not make scalers absent")
	scaler, err = c.Scaler(t.Context(), "default", "nobody")
	require.NoError(t, err, "and the next read looks again")
	require.Nil(t, scaler)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Scaler(ctx, "default", "nobody")
	require.ErrorIs(t, err, context.Canceled)
}
