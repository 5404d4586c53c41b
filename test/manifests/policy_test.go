package manifests

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
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

const (
	policyComponent = "components/admission-policy"
	locked          = "second-lock" // namespace of what the policy's test writes
	deciderUser     = "system:serviceaccount:" + namespace + ":decider"
)

func TestThePolicyCoversWhatTheFenceCovers(t *testing.T) {
	objects := render(t, policyComponent)
	policy := one[*admissionregistrationv1.ValidatingAdmissionPolicy](t, objects, namespace+"-fence")
	binding := one[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, objects, namespace+"-fence")
	require.Equal(t, policy.Name, binding.Spec.PolicyName)
	require.Equal(t, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}, binding.Spec.ValidationActions)
	require.Nil(t, binding.Spec.MatchResources, "everywhere")
	require.Equal(t, admissionregistrationv1.Fail, *policy.Spec.FailurePolicy)
	var rules []admissionregistrationv1.RuleWithOperations
	for _, rule := range policy.Spec.MatchConstraints.ResourceRules {
		rules = append(rules, rule.RuleWithOperations)
	}
	require.Equal(t, webhooks(t, render(t, "base"))[fenceTarget].GetRules(), rules)
	require.Contains(t, policy.Spec.MatchConditions[0].Expression, "'"+deciderUser+"'")
}

// as gives a client with the rights of an editor of deployments, and more verbs.
func as(t *testing.T, cluster *testcluster.Cluster, user string, verbs ...string) dynamic.Interface {
	t.Helper()
	core, err := kubernetes.NewForConfig(cluster.Config(t))
	require.NoError(t, err)
	_, err = core.RbacV1().Roles(locked).Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{target.GroupName}, Resources: []string{target.Resource, target.Resource + "/status", target.Resource + "/scale"},
		Verbs: append(verbs, "get", "create", "update", "patch", "delete"),
	}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = core.RbacV1().RoleBindings(locked).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return impersonate(t, cluster, user)
}

func impersonate(t *testing.T, cluster *testcluster.Cluster, user string, groups ...string) dynamic.Interface {
	t.Helper()
	config := rest.CopyConfig(cluster.Config(t))
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	return client
}

// No webhook is registered in this test: the policy alone must hold.
func TestThePolicyHoldsWithoutAnyWebhook(t *testing.T) {
	cluster := testcluster.Get(t)
	cluster.Apply(t, "manifests/crds", "dev/crds/modeldeployments.yaml")
	cluster.Kubectl(t, "create", "namespace", locked)
	jane, keeper := as(t, cluster, "jane"), as(t, cluster, "keeper", "release")
	root, decider := impersonate(t, cluster, "root", "system:masters"), impersonate(t, cluster, deciderUser, "system:masters")
	cluster.Kubectl(t, "apply", "--server-side", "-k", "manifests/"+policyComponent)
	t.Cleanup(func() { cluster.Kubectl(t, "delete", "-k", "manifests/"+policyComponent) })
	serveScale(t, cluster)

	const binding, decision = `{"scalerName":"s","scalerUID":"u1","term":1}`, `{"decisionID":"e-1.1.up","term":1,"vector":{"a":2,"b":2}}`
	both := fmt.Sprintf(`{%q: %q, %q: %q}`, fence.BindingAnnotation, binding, fence.DecisionAnnotation, decision)
	leftOver := fmt.Sprintf(`{%q: %q}`, fence.DecisionAnnotation, decision)
	unreadable := fmt.Sprintf(`{%q: "x"}`, fence.BindingAnnotation)
	roles := func(a, b int) string {
		return fmt.Sprintf(`{"spec":{"roles":[{"name":"a","instanceType":"x","replicas":%d},{"name":"b","instanceType":"x","replicas":%d}]}}`, a, b)
	}
	const swapped = `{"spec":{"roles":[{"name":"b","instanceType":"x","replicas":2},{"name":"a","instanceType":"x","replicas":2}]}}`
	const fewer = `{"spec":{"roles":[{"name":"a","instanceType":"x","replicas":2}]}}`
	removed := func(names ...string) string {
		text := ""
		for _, name := range names {
			text += fmt.Sprintf(`,%q:null`, name)
		}
		return `{"metadata":{"annotations":{` + text[1:] + `}}}`
	}

	tests := []struct {
		name    string
		who     dynamic.Interface
		annoted string // annotations before; empty: none
		patch   string
		sub     []string
		refused string // words of the refusal; empty: allowed
	}{
		{"counts of an unbound deployment", jane, "", roles(3, 2), nil, ""},
		{"counts of one with a left-over decision", jane, leftOver, roles(3, 2), nil, ""},
		{"the left-over decision, removed", jane, leftOver, removed(fence.DecisionAnnotation), nil, ""},
		{"the left-over decision, changed", jane, leftOver, annotation(fence.DecisionAnnotation, `"x"`), nil, "can only be written by the scaler's controller"},
		{"a binding, installed", jane, "", annotation(fence.BindingAnnotation, `"x"`), nil, "create a ModelDeploymentScaler in mode Active"},
		{"an empty binding, installed", jane, "", annotation(fence.BindingAnnotation, `""`), nil, "create a ModelDeploymentScaler in mode Active"},
		{"a decision, installed", jane, "", annotation(fence.DecisionAnnotation, `""`), nil, "can only be written by the scaler's controller"},

		{"counts of a bound deployment", jane, both, roles(3, 2), nil, `belong to the scaler of the binding {"scalerName":"s"`},
		{"counts of a bound deployment, by an administrator", root, both, roles(3, 2), nil, "suspend that scaler"},
		{"a role less", jane, both, fewer, nil, "the replica counts belong"},
		{"a count left out", jane, both, `{"spec":{"roles":[{"name":"a","instanceType":"x"},{"name":"b","instanceType":"x","replicas":2}]}}`, nil, "the replica counts belong"},
		{"counts where the binding cannot be read", jane, unreadable, roles(3, 2), nil, "the replica counts belong"},
		{"another order of roles", jane, both, swapped, nil, ""},
		{"another field of a bound deployment", jane, both, `{"spec":{"engine":{"version":"9"}}}`, nil, ""},
		{"a label", jane, both, `{"metadata":{"labels":{"a":"b"}}}`, nil, ""},
		{"a finalizer", jane, both, `{"metadata":{"finalizers":["example.com/x"]}}`, nil, ""},
		{"another annotation", jane, both, annotation("note", `"x"`), nil, ""},
		{"the status", jane, both, `{"status":{"phase":"Ready"}}`, []string{"status"}, ""},
		{"a scale", jane, both, `{"spec":{"replicas":5}}`, []string{"scale"}, "the replica counts belong"},
		{"a scale to what it is", jane, both, `{"spec":{"replicas":2}}`, []string{"scale"}, ""},
		{"the binding, changed", jane, both, annotation(fence.BindingAnnotation, `"x"`), nil, "can only be written by"},
		{"the binding, emptied", jane, both, annotation(fence.BindingAnnotation, `""`), nil, "can only be written by"},
		{"the binding, removed", jane, both, removed(fence.BindingAnnotation), nil, "takes the verb release"},
		{"an unreadable binding, removed", jane, unreadable, removed(fence.BindingAnnotation), nil, "takes the verb release"},
		{"the decision, changed", jane, both, annotation(fence.DecisionAnnotation, `"x"`), nil, "can only be written by"},
		{"the decision, removed", jane, both, removed(fence.DecisionAnnotation), nil, "belongs to the scaler"},
		{"both, removed", jane, both, removed(fence.BindingAnnotation, fence.DecisionAnnotation), nil, "takes the verb release"},

		{"the binding, removed by who may", keeper, both, removed(fence.BindingAnnotation), nil, ""},
		{"both, removed by who may", keeper, both, removed(fence.BindingAnnotation, fence.DecisionAnnotation), nil, ""},
		{"the binding, removed by an administrator", root, both, removed(fence.BindingAnnotation), nil, ""},
		{"the binding, removed with a count by who may", keeper, both, removed(fence.BindingAnnotation)[:len(removed(fence.BindingAnnotation))-1] + "," + roles(3, 2)[1:], nil, "the replica counts belong"},
		{"the binding, changed by who may remove it", keeper, both, annotation(fence.BindingAnnotation, `"x"`), nil, "can only be written by"},

		{"a commit of the decider", decider, both, roles(3, 2)[:len(roles(3, 2))-1] + "," + annotation(fence.DecisionAnnotation, `"next"`)[1:], nil, ""},
		{"a binding that the decider installs", decider, "", annotation(fence.BindingAnnotation, `"x"`), nil, ""},
		{"a binding that the decider releases", decider, both, removed(fence.BindingAnnotation), nil, ""},
	}
	made := func(annotations string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(`
apiVersion: worker.gpustack.ai/v1
kind: ModelDeployment
metadata: {generateName: chat-}
spec: {replicas: 2, roles: [{name: a, instanceType: x, replicas: 2}, {name: b, instanceType: x, replicas: 2}]}
`), &u.Object))
		var set map[string]string
		require.NoError(t, yaml.Unmarshal([]byte(annotations), &set))
		u.SetAnnotations(set)
		return u
	}
	where := decider.Resource(resource(target.Resource)).Namespace(locked)
	probe := func() error {
		_, err := jane.Resource(resource(target.Resource)).Namespace(locked).Create(t.Context(), made(both), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	require.Eventually(t, func() bool { return apierrors.IsForbidden(probe()) }, 90*time.Second, 100*time.Millisecond, "the policy is in force")
	require.ErrorContains(t, probe(), "can only be written by the scaler's controller", "nobody creates a deployment with an owner")
	_, err := where.Create(t.Context(), made(both), metav1.CreateOptions{})
	require.NoError(t, err, "but the decider, whom the webhook judges")

	for _, version := range workerv1.Versions {
		for _, tt := range tests {
			t.Run(tt.name+" in "+version, func(t *testing.T) {
				created, err := where.Create(t.Context(), made(tt.annoted), metav1.CreateOptions{})
				require.NoError(t, err)
				gvr := resource(target.Resource)
				gvr.Version = version
				_, err = tt.who.Resource(gvr).Namespace(locked).Patch(t.Context(), created.GetName(), types.MergePatchType, []byte(tt.patch), metav1.PatchOptions{}, tt.sub...)
				if tt.refused == "" {
					require.NoError(t, err)
					return
				}
				require.True(t, apierrors.IsForbidden(err), "%v", err)
				require.ErrorContains(t, err, namespace+"-fence")
				require.ErrorContains(t, err, tt.refused)
			})
		}
	}
}
