package decide

import (
	"slices"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

// refusedGrowth says that the role was refused room and still wants to grow.
func (p *pass) refusedGrowth(r *role) bool {
	return p.blocked(r) && r.wanted > r.Replicas && r.firstPending(0, r.Replicas) < 0
}

// receivers are the refused roles that still want to grow: by priority, and otherwise in spec order. Under the policy Priority
// a role that is not listed does not receive.
func (p *pass) receivers() []*role {
	if p.spec.Rebalance.Policy == workerv1.RebalancePriority {
		return p.listed(p.spec.Rebalance.Priority, p.refusedGrowth)
	}
	var found []*role
	for _, r := range p.roles {
		if p.refusedGrowth(r) {
			found = append(found, r)
		}
	}
	return found
}

// donors are the roles that may give the receiver a replica, the first choice first. Windows and the step size do not bind a
// donation; a step policy of zero and all guards of shrinking do (D64).
func (p *pass) donors(receiver *role) []*role {
	gives := func(r *role) bool {
		least, _ := stepDown(p, r)
		_, forbidden := shrinkGuards(p, r)
		return r != receiver && r.InstanceType != "" && r.InstanceType == receiver.InstanceType &&
			r.Replicas > r.floorBound() && least < r.Replicas && forbidden == ""
	}
	if p.spec.Rebalance.Policy == workerv1.RebalancePriority {
		list := p.spec.Rebalance.Priority
		after := list[slices.Index(list, receiver.Name)+1:]
		return p.listed(after, func(r *role) bool { return gives(r) && r.raw <= r.Replicas })
	}
	var found []*role
	for _, r := range p.roles {
		if gives(r) && r.raw < r.Replicas {
			found = append(found, r)
		}
	}
	return found
}

func (p *pass) listed(names []string, keep func(*role) bool) []*role {
	var found []*role
	for _, name := range names {
		if r := p.role(name); r != nil && keep(r) {
			found = append(found, r)
		}
	}
	return found
}
