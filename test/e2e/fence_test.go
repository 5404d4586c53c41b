package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
)

// pointer of an annotation in a JSON Patch.
func pointer(annotation string) string {
	return "/metadata/annotations/" + strings.ReplaceAll(annotation, "/", "~1")
}

func setCount(count int64) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		roles, _, _ := unstructured.NestedSlice(u.Object, "spec", "roles")
		roles[0].(map[string]any)["replicas"] = count
		u.Object["spec"].(map[string]any)["roles"] = roles
	}
}

func setAnnotation(name, value string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		annotations := u.GetAnnotations()
		annotations[name] = value
		u.SetAnnotations(annotations)
	}
}

func applied(replicas int64) map[string]any {
	return map[string]any{"spec": map[string]any{"roles": []any{map[string]any{"name": "server", "instanceType": "a100", "replicas": replicas}}}}
}

func appliedAnnotation(name, value string) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{name: value}}}
}

func TestUsersCannotChangeWhatAScalerOwns(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.deploy("chat", "vLLM", 1, busy)
	s.scale(policy{name: "owner", target: "chat", mode: workerv1.ModeActive, min: 1, max: 2})
	s.bound("owner", "chat")
	s.eventually("it has committed once, and stays", func() bool { return s.replicas("chat") == 2 })
	jane := s.user("jane")

	refused := []struct {
		name  string
		write func(version string) error
	}{
		{"an update of the count", func(v string) error { return jane.update(v, "chat", setCount(4)) }},
		{"a patch of the count", func(v string) error {
			return jane.patch(v, "chat", `[{"op":"replace","path":"/spec/roles/0/replicas","value":4}]`)
		}},
		{"a server-side apply of the count", func(v string) error { return jane.apply(v, "chat", applied(4)) }},
		{"a patch that removes the count", func(v string) error {
			return jane.patch(v, "chat", `[{"op":"remove","path":"/spec/roles/0/replicas"}]`)
		}},
		{"an update of the binding", func(v string) error {
			return jane.update(v, "chat", setAnnotation(fence.BindingAnnotation, `{"scalerName":"mine","scalerUID":"1","term":1}`))
		}},
		{"a patch that removes the binding", func(v string) error {
			return jane.patch(v, "chat", `[{"op":"remove","path":"`+pointer(fence.BindingAnnotation)+`"}]`)
		}},
		{"a server-side apply of the binding", func(v string) error {
			return jane.apply(v, "chat", appliedAnnotation(fence.BindingAnnotation, `{"scalerName":"mine","scalerUID":"1","term":1}`))
		}},
		{"an update of the decision", func(v string) error { return jane.update(v, "chat", setAnnotation(fence.DecisionAnnotation, "{}")) }},
		{"a patch that removes the decision", func(v string) error {
			return jane.patch(v, "chat", `[{"op":"remove","path":"`+pointer(fence.DecisionAnnotation)+`"}]`)
		}},
		{"a server-side apply of the decision", func(v string) error {
			return jane.apply(v, "chat", appliedAnnotation(fence.DecisionAnnotation, "{}"))
		}},
	}
	accepted := []struct {
		name  string
		write func(version string) error
	}{
		{"an update of another field of the role", func(v string) error {
			return jane.update(v, "chat", func(u *unstructured.Unstructured) {
				roles, _, _ := unstructured.NestedSlice(u.Object, "spec", "roles")
				roles[0].(map[string]any)["resources"] = map[string]any{"gpus": v}
				u.Object["spec"].(map[string]any)["roles"] = roles
			})
		}},
		{"a patch of the engine's version", func(v string) error {
			return jane.patch(v, "chat", `[{"op":"add","path":"/spec/engine/version","value":"`+v+`"}]`)
		}},
		{"a server-side apply of a label", func(v string) error {
			return jane.apply(v, "chat", map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": v}}})
		}},
		{"another annotation", func(v string) error { return jane.update(v, "chat", setAnnotation("example.com/note", v)) }},
	}
	before := s.deployment("chat")
	for _, version := range workerv1.Versions {
		for _, tt := range refused {
			t.Run(tt.name+" is refused in "+version, func(t *testing.T) {
				err := tt.write(version)
				require.True(t, apierrors.IsForbidden(err), "%v", err)
				require.ErrorContains(t, err, "ModelDeploymentScaler owner")
				require.ErrorContains(t, err, "suspend scaler owner", "it names the way out")
			})
		}
		for _, tt := range accepted {
			t.Run(tt.name+" passes in "+version, func(t *testing.T) { require.NoError(t, tt.write(version)) })
		}
	}
	after := s.deployment("chat")
	require.Equal(t, before.Roles[0].Replicas, after.Roles[0].Replicas)
	for _, owned := range []string{fence.BindingAnnotation, fence.DecisionAnnotation} {
		require.Equal(t, before.Annotations[owned], after.Annotations[owned])
	}
	require.Equal(t, "v1alpha1", after.Annotations["example.com/note"])
}

func TestNobodyInstallsABinding(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.deploy("chat", "vLLM", 1, quiet)
	jane := s.user("jane")
	for _, annotation := range []string{fence.BindingAnnotation, fence.DecisionAnnotation} {
		err := jane.apply("v1", "chat", appliedAnnotation(annotation, `{"scalerName":"mine","scalerUID":"1","term":1}`))
		require.True(t, apierrors.IsForbidden(err), "%v", err)
	}
	require.NoError(t, jane.update("v1", "chat", setCount(2)), "counts of an unbound deployment are everybody's")
}
