package target

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Workload is a Kueue Workload as far as scaling needs it.
type Workload struct {
	Namespace, Name, UID string
	// PodUIDs of the Pods that own it. They are plain references, not controller references.
	PodUIDs []string
	// Role is the name of its only pod set, which a deployment's owner names after the role; empty when there are several.
	Role string
	// PodName is the name of one of those Pods. Of an instance whose Pods are gone it is the only trace of the deployment.
	PodName string
	// Admitted now: an eviction takes it away (D29).
	Admitted bool
}

// ParseWorkload reads a Workload. What it cannot read counts as not admitted and as nobody's.
func ParseWorkload(u *unstructured.Unstructured) Workload {
	w := Workload{Namespace: u.GetNamespace(), Name: u.GetName(), UID: string(u.GetUID())}
	for _, owner := range u.GetOwnerReferences() {
		if owner.Kind == "Pod" && owner.APIVersion == "v1" {
			w.PodUIDs = append(w.PodUIDs, string(owner.UID))
			w.PodName = owner.Name
		}
	}
	podSets, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "podSets")
	if sets, _ := podSets.([]any); len(sets) == 1 {
		set, _ := sets[0].(map[string]any)
		w.Role, _ = set["name"].(string)
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

// Deployments are the names that the Workload's deployment can have, by the name of its Pod: <deployment>-<role>-<more>. That
// is one, unless names repeat themselves.
func (w Workload) Deployments() (names []string) {
	if w.Role == "" {
		return nil
	}
	between := "-" + w.Role + "-"
	for at := strings.Index(w.PodName, between); at > 0; {
		names = append(names, w.PodName[:at])
		next := strings.Index(w.PodName[at+1:], between)
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return names
}

// of says that the Workload is one of a role of d, by the names alone.
func (w Workload) of(d Deployment, role Role) bool {
	return w.Namespace == d.Namespace && w.Role == role.Name && strings.HasPrefix(w.PodName, d.Name+"-"+role.Name+"-")
}

// ordinal of the instance, as the Pods of instances with several of them are named: ...-r<ordinal>-m<member>.
func (w Workload) ordinal(d Deployment, role Role) (int, bool) {
	rest, numbered := strings.CutPrefix(w.PodName, d.Name+"-"+role.Name+"-r")
	number, _, more := strings.Cut(rest, "-m")
	n, readable := decimal(number)
	return n, numbered && more && readable && role.Size > 1
}
