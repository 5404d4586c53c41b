package decide

import (
	"slices"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

// Conflict is a smallest proof that a policy can never plan: no counts within the bounds of Roles satisfy all of Ratios, and
// without any one of the ratios some would. It has no ratio when the bounds of the role alone leave no count.
type Conflict struct {
	Roles  []int // places in the bounds, rising
	Ratios []int // places in the ratios, rising
}

// Feasible searches for a vector within the bounds that satisfies all ratio bands, exactly but for the slack of D28 (spec
// "Bounds and ratios"). It returns the conflict that it proved, if it did; decided is false when the search ended before
// anything was certain, and admission lets such a policy pass. Ratios with a role that has no bounds bind nobody.
func Feasible(bounds []workerv1.RoleBounds, ratios []workerv1.Ratio) (conflict *Conflict, decided bool) {
	for i, b := range bounds {
		if floorOf(b) > b.MaxReplicas {
			return &Conflict{Roles: []int{i}}, true
		}
	}
	all := make([]int, len(ratios))
	for i := range all {
		all[i] = i
	}
	budget := admissionBudget
	if outcome := feasibility(bounds, ratios, all, &budget); outcome != impossible {
		return nil, outcome == possible
	}
	least := leastConflict(bounds, ratios, all)
	return &Conflict{Roles: rolesOf(bounds, ratios, least), Ratios: least}, true
}

type outcome int

const (
	possible outcome = iota
	impossible
	undecided
)

// feasibility of the bounds under some of the ratios. One component that is proved impossible decides for all.
func feasibility(bounds []workerv1.RoleBounds, ratios []workerv1.Ratio, of []int, budget *int) outcome {
	p := &pass{}
	for _, b := range bounds {
		r := &role{bounds: b, ceil: b.MaxReplicas, floor: floorOf(b), count: floorOf(b)}
		r.Name, r.Replicas = b.Name, r.floor
		p.roles = append(p.roles, r)
	}
	for _, i := range of {
		b := bandsOf(ratios[i : i+1])[0]
		b.target = limit{} // a preference binds nobody
		p.bands = append(p.bands, b)
	}
	found := possible
	for _, c := range p.components() {
		s := newSearch(&c, true, *budget)
		_, best := s.run()
		*budget = s.budget
		switch {
		case best || s.score.distance >= 0: // a witness is enough, it need not be the best
		case s.budget > 0:
			return impossible
		default:
			found = undecided
		}
	}
	return found
}

// leastConflict leaves out every ratio without which the rest is still impossible. What the budget leaves undecided stays.
func leastConflict(bounds []workerv1.RoleBounds, ratios []workerv1.Ratio, of []int) []int {
	budget := admissionBudget
	least := slices.Clone(of)
	for _, i := range of {
		without := slices.DeleteFunc(slices.Clone(least), func(j int) bool { return i == j })
		if feasibility(bounds, ratios, without, &budget) == impossible {
			least = without
		}
	}
	return least
}

func rolesOf(bounds []workerv1.RoleBounds, ratios []workerv1.Ratio, of []int) (roles []int) {
	for i, b := range bounds {
		if slices.ContainsFunc(of, func(j int) bool { return ratios[j].NumeratorRole == b.Name || ratios[j].DenominatorRole == b.Name }) {
			roles = append(roles, i)
		}
	}
	return roles
}

// floorOf is the minimum of a role; an omitted one is 1.
func floorOf(b workerv1.RoleBounds) int32 { return max(1, b.MinReplicas) }

// Broken is the place of the first ratio that the counts violate; -1 when there is none. Ratios with a role that has no count
// bind nobody.
func Broken(ratios []workerv1.Ratio, counts workerv1.Vector) int {
	for i := range ratios {
		if violated(bandsOf(ratios[i:i+1]), counts) != nil {
			return i
		}
	}
	return -1
}

// BandOf is what a ratio allows, as people read it: "prefill/decode within [0.5, 2]".
func BandOf(ratio workerv1.Ratio) string { return bandsOf([]workerv1.Ratio{ratio})[0].String() }
