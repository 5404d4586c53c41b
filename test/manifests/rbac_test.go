package manifests

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Each line is "verb group/resource" or "verb group/resource/name".
func TestEachProgramMayDoThisAndNothingElse(t *testing.T) {
	everywhere := map[string][]string{
		"sampler": nil,
		"decider": {
			"get worker.gpustack.ai/modeldeployments", "list worker.gpustack.ai/modeldeployments", "watch worker.gpustack.ai/modeldeployments", "patch worker.gpustack.ai/modeldeployments",
			"get worker.gpustack.ai/modeldeploymentscalers", "list worker.gpustack.ai/modeldeploymentscalers", "watch worker.gpustack.ai/modeldeploymentscalers", "patch worker.gpustack.ai/modeldeploymentscalers",
			"get worker.gpustack.ai/modeldeploymentscalers/status", "patch worker.gpustack.ai/modeldeploymentscalers/status",
			"get /pods", "list /pods", "watch /pods",
			"get kueue.x-k8s.io/workloads", "list kueue.x-k8s.io/workloads", "watch kueue.x-k8s.io/workloads",
			"create /events", "patch /events", "create events.k8s.io/events", "patch events.k8s.io/events",
			"get apiextensions.k8s.io/customresourcedefinitions modeldeploymentscalers.worker.gpustack.ai",
			"create authentication.k8s.io/tokenreviews", "create authorization.k8s.io/subjectaccessreviews",
		},
		"webhook": {"get worker.gpustack.ai/modeldeployments", "get worker.gpustack.ai/modeldeploymentscalers"},
	}
	home := map[string][]string{
		"sampler": nil,
		"decider": {"create coordination.k8s.io/leases", "get coordination.k8s.io/leases decider", "update coordination.k8s.io/leases decider"},
		"webhook": {"get coordination.k8s.io/leases decider"},
	}
	// What deciders and webhooks need beside to make certificates themselves.
	ownSecrets := map[string][]string{}
	for component, secrets := range map[string][]string{"decider": {"decider-authority", "decider-tls", "sampler-tls"}, "webhook": {"webhook-certificates"}} {
		for _, secret := range secrets {
			ownSecrets[component] = append(ownSecrets[component], "get /secrets "+secret, "watch /secrets "+secret, "update /secrets "+secret)
		}
	}
	var ownBundles []string
	for _, configuration := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		for _, verb := range []string{"get", "watch", "patch"} {
			ownBundles = append(ownBundles, verb+" admissionregistration.k8s.io/"+configuration+" model-deployment-scaler")
		}
	}
	for _, overlay := range overlays {
		objects := render(t, "overlays/"+overlay)
		for _, component := range components {
			everywhere, home := everywhere[component], home[component]
			if overlay != "cert-manager" {
				home = slices.Concat(home, ownSecrets[component])
			}
			if component == "webhook" && overlay != "cert-manager" {
				everywhere = slices.Concat(everywhere, ownBundles)
			}
			require.ElementsMatch(t, everywhere, clusterGrants(t, objects, component), "%s in %s", component, overlay)
			require.ElementsMatch(t, home, homeGrants(t, objects, component), "%s in %s", component, overlay)
		}
		for _, binding := range all[*rbacv1.ClusterRoleBinding](objects) {
			require.Contains(t, components, binding.Subjects[0].Name)
		}
	}
}

func clusterGrants(t *testing.T, objects []runtime.Object, component string) []string {
	t.Helper()
	var grants []string
	for _, binding := range all[*rbacv1.ClusterRoleBinding](objects) {
		if isFor(t, binding.Subjects, component) {
			require.Equal(t, "ClusterRole", binding.RoleRef.Kind)
			grants = append(grants, lines(one[*rbacv1.ClusterRole](t, objects, binding.RoleRef.Name).Rules)...)
		}
	}
	return grants
}

func homeGrants(t *testing.T, objects []runtime.Object, component string) []string {
	t.Helper()
	var grants []string
	for _, binding := range all[*rbacv1.RoleBinding](objects) {
		if isFor(t, binding.Subjects, component) {
			require.Equal(t, "Role", binding.RoleRef.Kind)
			grants = append(grants, lines(one[*rbacv1.Role](t, objects, binding.RoleRef.Name).Rules)...)
		}
	}
	return grants
}

func isFor(t *testing.T, subjects []rbacv1.Subject, component string) bool {
	t.Helper()
	require.Len(t, subjects, 1)
	return subjects[0] == rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: component}
}

func lines(rules []rbacv1.PolicyRule) []string {
	var found []string
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						found = append(found, strings.TrimSpace(verb+" "+group+"/"+resource+" "+name))
					}
				}
			}
		}
	}
	return found
}

func TestUsersGetScalersWithTheirUsualRoles(t *testing.T) {
	may := map[string][]string{}
	for _, role := range all[*rbacv1.ClusterRole](render(t, "base")) {
		for label, value := range role.Labels {
			if to, ok := strings.CutPrefix(label, "rbac.authorization.k8s.io/aggregate-to-"); ok && value == "true" {
				may[to] = append(may[to], lines(role.Rules)...)
			}
		}
	}
	var view, change []string
	for _, verb := range []string{"get", "list", "watch"} {
		view = append(view, verb+" worker.gpustack.ai/modeldeploymentscalers", verb+" worker.gpustack.ai/modeldeploymentscalers/status")
	}
	for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
		change = append(change, verb+" worker.gpustack.ai/modeldeploymentscalers")
	}
	require.ElementsMatch(t, view, may["view"])
	require.ElementsMatch(t, slices.Concat(view, change), may["edit"])
	require.ElementsMatch(t, slices.Concat(view, change), may["admin"])
}
