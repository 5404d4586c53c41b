package decide

import workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"

// Feasible says whether any vector within the bounds satisfies all ratio bands (spec "Bounds and ratios"). It is undecided when
// the search ends before it is certain; admission refuses only what is proved impossible. Ratios with a role that has no bounds
// bind nobody.
func Feasible(bounds []workerv1.RoleBounds, ratios []workerv1.Ratio) (feasible, decided bool) {
	p := &pass{bands: bandsOf(ratios)}
	for _, b := range bounds {
		r := &role{bounds: b, ceil: b.MaxReplicas}
		r.Name, r.Replicas = b.Name, r.floorBound()
		r.count, r.floor = r.Replicas, r.Replicas
		if r.Replicas > r.ceil || p.role(b.Name) != nil {
			return false, true
		}
		p.roles = append(p.roles, r)
	}
	for _, c := range p.components() {
		s := newSearch(&c, true, admissionBudget)
		if _, found := s.run(); !found {
			return false, s.budget > 0
		}
	}
	return true, true
}
