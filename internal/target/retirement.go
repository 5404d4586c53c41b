package target

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// parseRetirement reads status.retirement. What it cannot read stays zero, and a retirement without a known end is running:
// a field that is there at all must hold shrinking back.
func parseRetirement(object map[string]any) *Retirement {
	field, found, err := unstructured.NestedFieldNoCopy(object, "status", "retirement")
	if err != nil || !found || field == nil {
		return nil
	}
	fields, _ := field.(map[string]any)
	role, _ := fields["roleName"].(string)
	state, _ := fields["state"].(string)
	reason, _ := fields["reason"].(string)
	workload, _ := fields["targetWorkloadUID"].(string)
	started, _ := fields["startedAt"].(string)
	startedAt, _ := time.Parse(time.RFC3339, started)
	generation, _ := integer(fields["observedGeneration"])
	ordinal, ok := integer(fields["replicaOrdinal"])
	if !ok || ordinal < 0 {
		role, ordinal = "", 0 // names no instance
	}
	return &Retirement{
		Role:               role,
		Ordinal:            int(ordinal),
		State:              RetirementState(state),
		ObservedGeneration: generation,
		StartedAt:          startedAt,
		WorkloadUID:        workload,
		Reason:             reason,
	}
}
