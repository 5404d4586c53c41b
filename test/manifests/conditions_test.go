package manifests

import (
	"testing"

	"github.com/stretchr/testify/require"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

func TestTheFenceSeesGuardedWritesOnly(t *testing.T) {
	const (
		bare     = `{metadata: {name: chat}, spec: {engine: {name: vLLM}, roles: [{name: prefill, replicas: 2}, {name: decode}]}}`
		bound    = `{metadata: {name: chat, annotations: {` + fence.BindingAnnotation + `: a, ` + fence.DecisionAnnotation + `: b, other: c}}, spec: {roles: [{name: prefill, replicas: 2}, {name: decode}]}}`
		noRoles  = `{metadata: {name: chat}, spec: {engine: {name: vLLM}}}`
		scale    = `{metadata: {name: chat}, spec: {replicas: 2}}`
		deleting = `{metadata: {name: chat, deletionTimestamp: "2026-01-01T00:00:00Z", annotations: {` + fence.BindingAnnotation + `: a}}, spec: {roles: [{name: prefill, replicas: 2}]}}`
	)
	tests := []struct {
		name        string
		subresource string
		old, object string
		asked       bool
	}{
		{"creating an unowned deployment", "", "", bare, false},
		{"creating one with other annotations", "", "", `{metadata: {annotations: {other: x}}, spec: {}}`, false},
		{"creating one without annotations or roles", "", "", noRoles, false},
		{"creating one with a binding", "", "", `{metadata: {annotations: {` + fence.BindingAnnotation + `: x}}}`, true},
		{"creating one with an empty binding", "", "", `{metadata: {annotations: {` + fence.BindingAnnotation + `: ""}}}`, true},
		{"creating one with a decision", "", "", `{metadata: {annotations: {` + fence.DecisionAnnotation + `: x}}}`, true},

		{"changing nothing", "", bound, bound, false},
		{"changing another field", "", bare, `{metadata: {name: chat}, spec: {engine: {name: SGLang}, roles: [{name: prefill, replicas: 2, image: new}, {name: decode}]}}`, false},
		{"changing labels, finalizers and other annotations", "", bound, `{metadata: {labels: {a: b}, finalizers: [c], annotations: {` + fence.BindingAnnotation + `: a, ` + fence.DecisionAnnotation + `: b}}, spec: {roles: [{name: prefill, replicas: 2}, {name: decode}]}}`, false},
		{"writing out the count that an absent one means", "", bare, `{metadata: {name: chat}, spec: {roles: [{name: prefill, replicas: 2}, {name: decode, replicas: 1}]}}`, false},
		{"leaving out a count of one", "", `{metadata: {}, spec: {roles: [{name: a, replicas: 1}]}}`, `{metadata: {}, spec: {roles: [{name: a}]}}`, false},
		{"a deployment that has no roles yet", "", noRoles, noRoles, false},

		{"changing a count", "", bare, `{metadata: {name: chat}, spec: {roles: [{name: prefill, replicas: 3}, {name: decode}]}}`, true},
		{"leaving out a count of two", "", bare, `{metadata: {name: chat}, spec: {roles: [{name: prefill}, {name: decode}]}}`, true},
		{"giving a count to an absent one", "", bare, `{metadata: {name: chat}, spec: {roles: [{name: prefill, replicas: 2}, {name: decode, replicas: 2}]}}`, true},
		{"adding a role", "", bare, `{metadata: {name: chat}, spec: {roles: [{name: prefill, replicas: 2}, {name: decode}, {name: encode}]}}`, true},
		{"removing a role", "", bare, `{metadata: {name: chat}, spec: {roles: [{name: prefill, replicas: 2}]}}`, true},
		{"removing all roles", "", bare, noRoles, true},
		{"renaming a role", "", bare, `{metadata: {name: chat}, spec: {roles: [{name: prefill, replicas: 2}, {name: decoder}]}}`, true},
		{"swapping counts by order", "", bare, `{metadata: {name: chat}, spec: {roles: [{name: decode, replicas: 2}, {name: prefill}]}}`, true},
		{"removing the binding", "", bound, `{metadata: {annotations: {` + fence.DecisionAnnotation + `: b}}, spec: {roles: [{name: prefill, replicas: 2}, {name: decode}]}}`, true},
		{"removing all annotations", "", bound, bare, true},
		{"changing the binding", "", bound, `{metadata: {annotations: {` + fence.BindingAnnotation + `: z, ` + fence.DecisionAnnotation + `: b}}, spec: {roles: [{name: prefill, replicas: 2}, {name: decode}]}}`, true},
		{"changing the decision", "", bound, `{metadata: {annotations: {` + fence.BindingAnnotation + `: a, ` + fence.DecisionAnnotation + `: z}}, spec: {roles: [{name: prefill, replicas: 2}, {name: decode}]}}`, true},
		{"installing a binding", "", bare, bound, true},
		{"installing an empty binding", "", noRoles, `{metadata: {annotations: {` + fence.BindingAnnotation + `: ""}}, spec: {}}`, true},
		{"changing a count while the deployment is deleted", "", deleting, `{metadata: {deletionTimestamp: "2026-01-01T00:00:00Z", annotations: {` + fence.BindingAnnotation + `: a}}, spec: {roles: [{name: prefill, replicas: 1}]}}`, true},
		{"a finalizer while the deployment is deleted", "", deleting, deleting, false},

		{"status", "status", bound, bound, false},
		{"a status write that brings a count", "status", bound, `{metadata: {annotations: {` + fence.BindingAnnotation + `: a, ` + fence.DecisionAnnotation + `: b}}, spec: {roles: [{name: prefill, replicas: 9}, {name: decode}]}}`, true},
		{"any other subresource", "scale", scale, scale, true},
	}
	hook := webhooks(t, render(t, "base"))[fenceTarget]
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.asked, asked(t, hook, target.Kind, target.Resource, tt.subresource, tt.old, tt.object))
		})
	}
}

func TestScalerWebhooksSeeSpecChangesOnly(t *testing.T) {
	const (
		scaler   = `{metadata: {name: chat}, spec: {mode: Active, roles: [{name: a, maxReplicas: 2}]}, status: {observedGeneration: 1}}`
		deleting = `{metadata: {name: chat, finalizers: [x], deletionTimestamp: "2026-01-01T00:00:00Z"}, spec: {mode: Active}}`
	)
	tests := []struct {
		name        string
		old, object string
		asked       bool
	}{
		{"creating", "", scaler, true},
		{"creating without a spec", "", `{metadata: {name: chat}}`, true},
		{"changing nothing", scaler, scaler, false},
		{"changing labels and finalizers", scaler, `{metadata: {name: chat, labels: {a: b}, finalizers: [x]}, spec: {mode: Active, roles: [{name: a, maxReplicas: 2}]}}`, false},
		{"changing the mode", scaler, `{metadata: {name: chat}, spec: {mode: Shadow, roles: [{name: a, maxReplicas: 2}]}}`, true},
		{"changing a bound", scaler, `{metadata: {name: chat}, spec: {mode: Active, roles: [{name: a, maxReplicas: 3}]}}`, true},
		{"removing the spec", scaler, `{metadata: {name: chat}}`, true},
		{"removing the finalizer under deletion", deleting, `{metadata: {name: chat, deletionTimestamp: "2026-01-01T00:00:00Z"}, spec: {mode: Active}}`, false},
		{"changing the spec under deletion", deleting, `{metadata: {name: chat, deletionTimestamp: "2026-01-01T00:00:00Z"}, spec: {mode: Shadow}}`, false},
	}
	registered := webhooks(t, render(t, "base"))
	for _, name := range []string{mutateScaler, validateScaler} {
		for _, tt := range tests {
			t.Run(name+": "+tt.name, func(t *testing.T) {
				require.Equal(t, tt.asked, asked(t, registered[name], workerv1.Kind, workerv1.Resource, "", tt.old, tt.object))
			})
		}
	}
}
