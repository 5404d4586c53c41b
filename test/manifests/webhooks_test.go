package manifests

import (
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	userinfo "k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

const (
	mutateScaler   = "mutate.modeldeploymentscaler.worker.gpustack.ai"
	validateScaler = "validate.modeldeploymentscaler.worker.gpustack.ai"
	fenceTarget    = "fence.modeldeployment.worker.gpustack.ai"
)

// webhooks returns the registrations of the base by name, as the API server sees them.
func webhooks(t *testing.T, objects []runtime.Object) map[string]webhook.WebhookAccessor {
	t.Helper()
	found := map[string]webhook.WebhookAccessor{}
	for _, c := range all[*admissionregistrationv1.MutatingWebhookConfiguration](objects) {
		for i := range c.Webhooks {
			found[c.Webhooks[i].Name] = webhook.NewMutatingWebhookAccessor(c.Webhooks[i].Name, c.Name, &c.Webhooks[i])
		}
	}
	for _, c := range all[*admissionregistrationv1.ValidatingWebhookConfiguration](objects) {
		for i := range c.Webhooks {
			found[c.Webhooks[i].Name] = webhook.NewValidatingWebhookAccessor(c.Webhooks[i].Name, c.Name, &c.Webhooks[i])
		}
	}
	return found
}

func TestWebhookRegistrations(t *testing.T) {
	objects := render(t, "base")
	service := one[*corev1.Service](t, objects, "webhook")
	tests := map[string]struct {
		path      string
		resources []string
	}{
		mutateScaler:   {"/mutate-modeldeploymentscaler", []string{workerv1.Resource}},
		validateScaler: {"/validate-modeldeploymentscaler", []string{workerv1.Resource}},
		fenceTarget:    {"/validate-modeldeployment", []string{target.Resource, target.Resource + "/*"}},
	}
	registered := webhooks(t, objects)
	require.Len(t, registered, len(tests))
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			hook := registered[name]
			at := hook.GetClientConfig().Service
			require.NotNil(t, at)
			require.Equal(t, service.Namespace+"/"+service.Name, at.Namespace+"/"+at.Name)
			require.Equal(t, service.Spec.Ports[0].Port, *at.Port)
			require.Equal(t, tt.path, *at.Path)
			require.Equal(t, []string{"v1"}, hook.GetAdmissionReviewVersions())
			require.EqualValues(t, 5, *hook.GetTimeoutSeconds())
			require.Equal(t, admissionregistrationv1.Fail, *hook.GetFailurePolicy())
			require.Equal(t, admissionregistrationv1.Equivalent, *hook.GetMatchPolicy())
			namespaced := admissionregistrationv1.NamespacedScope
			require.Equal(t, []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{workerv1.GroupName}, APIVersions: workerv1.Versions, Resources: tt.resources, Scope: &namespaced},
			}}, hook.GetRules())
		})
	}
	for name, class := range sideEffects(objects) {
		require.Equal(t, admissionregistrationv1.SideEffectClassNone, *class, name)
	}
}

func sideEffects(objects []runtime.Object) map[string]*admissionregistrationv1.SideEffectClass {
	classes := map[string]*admissionregistrationv1.SideEffectClass{}
	for _, c := range all[*admissionregistrationv1.MutatingWebhookConfiguration](objects) {
		for _, hook := range c.Webhooks {
			classes[hook.Name] = hook.SideEffects
		}
	}
	for _, c := range all[*admissionregistrationv1.ValidatingWebhookConfiguration](objects) {
		for _, hook := range c.Webhooks {
			classes[hook.Name] = hook.SideEffects
		}
	}
	return classes
}

// asked says whether the API server would send a write to the webhook: evaluated with the API server's own code.
func asked(t *testing.T, hook webhook.WebhookAccessor, kind, resource, subresource, old, object string) bool {
	t.Helper()
	matcher := hook.GetCompiledMatcher(cel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())))
	result := match(t, matcher, kind, resource, subresource, old, object)
	require.NoError(t, result.Error)
	return result.Matches
}

func match(t *testing.T, matcher matchconditions.Matcher, kind, resource, subresource, old, object string) matchconditions.MatchResult {
	t.Helper()
	group := schema.GroupVersion{Group: workerv1.GroupName, Version: "v1"}
	parse := func(text string) runtime.Object {
		if text == "" {
			return nil
		}
		u := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(text), &u.Object))
		u.SetGroupVersionKind(group.WithKind(kind))
		return u
	}
	operation := admission.Update
	if old == "" {
		operation = admission.Create
	}
	attributes, err := admission.NewVersionedAttributes(admission.NewAttributesRecord(parse(object), parse(old), group.WithKind(kind), "models", "chat",
		group.WithResource(resource), subresource, operation, nil, false, &userinfo.DefaultInfo{Name: "somebody"}), group.WithKind(kind), nil)
	require.NoError(t, err)
	return matcher.Match(t.Context(), attributes, nil, nil)
}
