package ownership

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

const (
	bindingKey  = "modeldeployment.gpustack.ai/scaler-binding"
	decisionKey = "modeldeployment.gpustack.ai/scaler-decision"
)

// The ways to write an object.
const (
	put = iota
	jsonPatch
	mergePatch
	serverSideApply
	ways
)

// deployment renders an object for the API.
func deployment(name string, o Object) *unstructured.Unstructured {
	annotations := map[string]any{"example.com/note": "x"}
	for key, value := range map[string]*string{bindingKey: o.Binding, decisionKey: o.Decision} {
		if value != nil {
			annotations[key] = *value
		}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1", "kind": "ModelDeployment",
		"metadata": map[string]any{"name": name, "annotations": annotations},
		"spec":     map[string]any{"model": map[string]any{"name": "x"}, "engine": map[string]any{"name": "vLLM"}, "roles": rolesOf(o)},
	}}
}

func rolesOf(o Object) []any {
	var roles []any
	for _, r := range o.Roles {
		role := map[string]any{"name": r.Name, "instanceType": "a100"}
		if r.Replicas > 0 {
			role["replicas"] = int64(r.Replicas)
		}
		roles = append(roles, role)
	}
	return roles
}

// writer writes one change of a deployment, in one of the ways, and a label beside it.
type writer struct {
	t       *testing.T
	client  dynamic.ResourceInterface
	version string
	live    *unstructured.Unstructured
	old     Object
	new     Object
	dryRun  []string
}

func (w writer) write(way int) error {
	switch {
	case way == jsonPatch:
		return w.patch(types.JSONPatchType, w.operations())
	case way == mergePatch:
		return w.patch(types.MergePatchType, map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"changed": "yes"}, "annotations": w.annotations(true)},
			"spec":     map[string]any{"roles": rolesOf(w.new)},
		})
	case way == serverSideApply && w.applicable():
		return w.apply()
	default:
		return w.replace()
	}
}

func (w writer) patch(kind types.PatchType, patch any) error {
	_, err := w.client.Patch(w.t.Context(), w.live.GetName(), kind, encode(w.t, patch), metav1.PatchOptions{DryRun: w.dryRun})
	return err
}

// annotations that change; a removed one is nil when removals can be said.
func (w writer) annotations(removals bool) map[string]any {
	changed := map[string]any{}
	for key, values := range map[string][2]*string{bindingKey: {w.old.Binding, w.new.Binding}, decisionKey: {w.old.Decision, w.new.Decision}} {
		switch was, is := values[0], values[1]; {
		case is != nil && differ(was, is):
			changed[key] = *is
		case is == nil && was != nil && removals:
			changed[key] = nil
		}
	}
	return changed
}

func (w writer) operations() []map[string]any {
	operations := []map[string]any{
		{"op": "add", "path": "/metadata/labels", "value": map[string]any{"changed": "yes"}},
		{"op": "replace", "path": "/spec/roles", "value": rolesOf(w.new)},
	}
	for key, value := range w.annotations(true) {
		operation := map[string]any{"op": "add", "path": "/metadata/annotations/" + strings.ReplaceAll(key, "/", "~1"), "value": value}
		if value == nil {
			operation["op"] = "remove"
		}
		operations = append(operations, operation)
	}
	return operations
}

// applicable says whether somebody who owns no field yet can apply this change: he cannot take anything away.
func (w writer) applicable() bool {
	if len(w.annotations(true)) != len(w.annotations(false)) || len(w.new.Roles) < len(w.old.Roles) {
		return false
	}
	for i, r := range w.new.Roles {
		if r.Replicas == 0 || i < len(w.old.Roles) && r.Name != w.old.Roles[i].Name {
			return false
		}
	}
	return true
}

func (w writer) apply() error {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/" + w.version, "kind": "ModelDeployment",
		"metadata": map[string]any{"name": w.live.GetName(), "labels": map[string]any{"changed": "yes"}, "annotations": w.annotations(false)},
		"spec":     map[string]any{"roles": rolesOf(w.new)},
	}}
	_, err := w.client.Apply(w.t.Context(), w.live.GetName(), object, metav1.ApplyOptions{FieldManager: "somebody", Force: true, DryRun: w.dryRun})
	return err
}

func (w writer) replace() error {
	_, err := w.client.Update(w.t.Context(), w.wanted(), metav1.UpdateOptions{DryRun: w.dryRun})
	return err
}

// wanted is the whole object as it should be.
func (w writer) wanted() *unstructured.Unstructured {
	object := w.live.DeepCopy()
	object.SetAPIVersion(group + "/" + w.version)
	object.SetLabels(map[string]string{"changed": "yes"})
	annotations := object.GetAnnotations()
	for key, value := range w.annotations(true) {
		if value == nil {
			delete(annotations, key)
			continue
		}
		annotations[key] = fmt.Sprint(value)
	}
	object.SetAnnotations(annotations)
	object.Object["spec"].(map[string]any)["roles"] = rolesOf(w.new)
	return object
}
