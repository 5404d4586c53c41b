package target

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// Workload is a Kueue Workload as far as scaling needs it.
type Workload struct {
	Namespace, Name, UID string
	// PodUIDs of the Pods that own it. They are plain references, not controller references.
	PodUIDs []string
	// Admitted now: an eviction takes it away (D29).
	Admitted bool
}

// ParseWorkload reads a Workload. What it cannot read counts as not admitted and as nobody's.
func ParseWorkload(u *unstructured.Unstructured) Workload {
	w := Workload{Namespace: u.GetNamespace(), Name: u.GetName(), UID: string(u.GetUID())}
	for _, owner := range u.GetOwnerReferences() {
		if owner.Kind == "Pod" && owner.APIVersion == "v1" {
			w.PodUIDs = append(w.PodUIDs, string(owner.UID))
		}
	}
	conditions, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "conditions")
	list, _ := conditions.([]any)
	for _, item := range list {
		condition, _ := item.(map[string]any)
		if condition["type"] == "Admitted" {
			w.Admitted = condition["status"] == "True"
		}
	}
	return w
}
