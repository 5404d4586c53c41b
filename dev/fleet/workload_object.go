package fleet

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gpustack.ai/model-deployment-scaler/internal/sim"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// newWorkload is the Workload of one instance, owned by its Pods with plain references.
func newWorkload(d deployment, i sim.Instance, members []member) *unstructured.Unstructured {
	owners := make([]any, len(members))
	for n, m := range members {
		owners[n] = map[string]any{"apiVersion": "v1", "kind": "Pod", "name": m.pod.name, "uid": m.uid}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": target.WorkloadGroup + "/" + target.WorkloadVersion,
		"kind":       "Workload",
		"metadata": map[string]any{
			"namespace": d.Namespace, "name": groupName(d, i), "ownerReferences": owners,
		},
		"spec": map[string]any{
			"active":    true,
			"queueName": i.Role.InstanceType,
			"podSets":   []any{map[string]any{"name": i.Role.Name, "count": int64(i.Role.Size)}},
		},
	}}
}

func hasConditions(w *unstructured.Unstructured) bool {
	list, _, _ := unstructured.NestedSlice(w.Object, "status", "conditions")
	return len(list) > 0
}

// setConditions says that a Workload has its quota, or waits for it.
func setConditions(w *unstructured.Unstructured, admitted bool, now time.Time) {
	conditions := []any{condition("QuotaReserved", false, "Pending", "waiting for quota", now)}
	if admitted {
		conditions = []any{
			condition("QuotaReserved", true, "QuotaReserved", "quota is reserved", now),
			condition("Admitted", true, "Admitted", "the workload is admitted", now),
		}
	}
	w.Object["status"] = map[string]any{"conditions": conditions}
}

// setEvicted says that a Workload has lost its quota to another.
func setEvicted(w *unstructured.Unstructured, now time.Time) {
	const reason, message = "Preempted", "preempted for another workload"
	w.Object["status"] = map[string]any{"conditions": []any{
		condition("QuotaReserved", false, reason, message, now),
		condition("Admitted", false, reason, message, now),
		condition("Evicted", true, reason, message, now),
	}}
}

func condition(kind string, holds bool, reason, message string, now time.Time) map[string]any {
	status := "False"
	if holds {
		status = "True"
	}
	return map[string]any{
		"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now.UTC().Format(time.RFC3339),
	}
}
