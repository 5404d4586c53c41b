package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"gpustack.ai/model-deployment-scaler/internal/sim"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// status writes the status of a deployment when it has changed: a merge patch on the version that was read, as its owner
// writes it.
func (p *pass) status(ctx context.Context, s state) {
	status := p.deploymentStatus(s)
	if !changes(s.object, status) {
		return
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": s.ResourceVersion}, "status": status})
	if err != nil {
		p.failures = append(p.failures, fmt.Errorf("writing the status of %s/%s: %w", s.Namespace, s.Name, err))
		return
	}
	p.call(ctx, func(ctx context.Context) error {
		_, err := p.dynamic.Resource(deployments).Namespace(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

// changes says whether a status differs from that of an object. Fields that the fleet does not write are left alone.
func changes(u *unstructured.Unstructured, status map[string]any) bool {
	current, _, _ := unstructured.NestedMap(u.Object, "status")
	for field, value := range status {
		if !equality.Semantic.DeepEqual(current[field], value) {
			return true
		}
	}
	return false
}

func (p *pass) deploymentStatus(s state) map[string]any {
	instances := p.seen(s)
	roles, summary := []any{}, ""
	ready, desired := 0, 0
	for _, role := range s.Roles {
		r := roleStatus(role, instances)
		roles = append(roles, r)
		ready, desired = ready+int(r["ready"].(int64)), desired+int(role.Replicas)
		if n := r["ready"].(int64); n > 0 {
			summary += fmt.Sprintf("%d%s", n, strings.ToUpper(string(kind(role))[:1]))
		}
	}
	return map[string]any{
		"roles": roles, "phase": phase(ready, desired), "roleSummary": summary, "retirement": p.retirementStatus(s.retirement),
	}
}

// seen are the instances as the cluster shows them: what their Pods say counts, not what the world knows.
func (p *pass) seen(s state) []target.Instance {
	var pods []*corev1.Pod
	var list []target.Workload
	for _, i := range s.instances {
		r := p.records[i.ID]
		for _, m := range r.members {
			if pod := p.pods[m.uid]; pod != nil {
				pods = append(pods, pod)
			}
		}
		if w := p.workloads[r.workload]; w != nil {
			list = append(list, target.ParseWorkload(w))
		}
	}
	return target.Instances(s.Deployment, pods, list, true)
}

func roleStatus(role target.Role, instances []target.Instance) map[string]any {
	var ready, reserved int64
	for _, i := range instances {
		if i.Role != role.Name {
			continue
		}
		if i.Ready {
			ready++
		}
		if i.Admission == target.AdmissionGranted {
			reserved++
		}
	}
	return map[string]any{
		"name": role.Name, "kind": string(kind(role)), "desired": int64(role.Replicas),
		"ready": ready, "quotaReserved": reserved, "unmanaged": role.Unmanaged,
	}
}

func phase(ready, desired int) string {
	switch {
	case ready == 0:
		return "Starting"
	case ready < desired:
		return "Degraded"
	}
	return "Ready"
}

// retirementStatus is null without one: a merge patch would keep a field that it does not name.
func (p *pass) retirementStatus(r *sim.Retirement) any {
	if r == nil {
		return nil
	}
	record := p.records[r.ID]
	uids := []any{}
	for _, m := range record.members {
		uids = append(uids, m.uid)
	}
	return map[string]any{
		"roleName": r.Role, "replicaOrdinal": int64(r.Ordinal), "observedGeneration": r.Generation,
		"targetMemberUIDs": uids, "targetWorkloadUID": record.workload,
		"state": string(r.State), "reason": r.Reason,
		"startedAt": stamp(r.Started), "deadline": stamp(r.DeadlineAt), "phaseStartedAt": stamp(r.PhaseStarted),
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
