package decide

import (
	"fmt"
	"slices"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
)

// Steps of a transfer, in status.rebalance.reason (spec "Resource rebalancing"). A transfer runs between DonorRelease and the
// admission of what the receiver acquired:
//
//	reason                  attempted  what is true                              what comes next
//	ResourceExhausted       no         a growth was refused and taken back       a donor, or one of the next two
//	RebalanceNotApplicable  no         nobody may give now                       looked at again in every pass
//	RebalanceBlocked        no         a step would break bounds or bands        looked at again in every pass
//	DonorRelease            yes        the donor's replica is leaving            ReceiverAcquire, or DonationAttempted
//	ReceiverAcquire         yes        the receiver's replica awaits admission   the record goes, or RebalanceBlocked
//	DonationAttempted       yes        the transfer ended without the receiver   RebalanceBlocked while the receiver wants
//	RebalanceBlocked        yes        the episode has had its donation          the episode ends
const (
	StepResourceExhausted = "ResourceExhausted"
	StepNotApplicable     = "RebalanceNotApplicable"
	StepBlocked           = "RebalanceBlocked"
	StepDonorRelease      = "DonorRelease"
	StepReceiverAcquire   = "ReceiverAcquire"
	StepDonationAttempted = "DonationAttempted"
)

func transferRuns(b *workerv1.RebalanceStatus) bool {
	return b != nil && (b.Reason == StepDonorRelease || b.Reason == StepReceiverAcquire)
}

// rebalance goes on with a running transfer, which freezes everything else (D59), or begins one.
func (p *pass) rebalance() {
	switch b := p.state.Rebalance; {
	case !p.owns():
	case transferRuns(b):
		p.freeze()
		p.advance(b)
	default:
		p.offer()
	}
}

// freeze leaves every role at its current count.
func (p *pass) freeze() {
	for _, r := range p.roles {
		r.paced = r.paced || r.count != r.Replicas
		r.moveTo(StageRebalance, r.Replicas, RuleRebalance)
	}
}

// advance lets the receiver acquire once nothing of the donor's replica is left, neither Pod nor Workload.
func (p *pass) advance(b *workerv1.RebalanceStatus) {
	if b.Reason == StepReceiverAcquire {
		if p.state.PendingCohort == nil {
			p.endTransfer(StepDonationAttempted)
		}
		return
	}
	receiver := p.role(b.ReceiverRole)
	switch {
	case removalRuns(p, nil):
		// The donor's replica is still there; its settling may take as long as it takes.
	case receiver == nil:
		p.endTransfer(StepDonationAttempted)
	case receiver.blind && b.StartedAt != nil && !p.now.After(b.StartedAt.Add(p.pendingTimeout())):
		// What the receiver wants is not known at the moment, after a change of leader for instance.
	case receiver.raw <= receiver.Replicas:
		p.endTransfer(StepDonationAttempted)
	case receiver.firstPending(0, receiver.Replicas) >= 0:
		// The receiver has a replica without admission: another one would wait behind it.
	case !p.legal(p.with(p.current(), receiver, +1)):
		p.endTransfer(StepBlocked)
	default:
		acquired := *b
		acquired.Reason = StepReceiverAcquire
		acquired.ReceiverTargetReplicas = receiver.Replicas + 1
		p.transfer(fence.CommitAcquire, receiver, receiver.Replicas+1, &acquired)
	}
}

// offer looks for a donor for the first role that was refused and still wants to grow. Growth of others goes first.
func (p *pass) offer() {
	if p.spec.Rebalance.Policy == workerv1.RebalanceDisabled || p.state.Exhaustion == nil || p.state.PendingCohort != nil {
		return
	}
	if slices.ContainsFunc(p.roles, func(r *role) bool { return r.count > r.Replicas }) {
		return
	}
	if !slices.ContainsFunc(p.roles, p.refusedGrowth) {
		return
	}
	if b := p.state.Rebalance; b != nil && b.DonationAttempted {
		p.notTransferred(StepBlocked, "this exhaustion episode has had its donation already")
		return
	}
	illegal := ""
	for _, receiver := range p.receivers() {
		for _, donor := range p.donors(receiver) {
			// Every ratio of the vector in between lies between those of the vectors before and after it.
			if !p.legal(p.with(p.with(p.current(), donor, -1), receiver, +1)) {
				illegal = fmt.Sprintf("moving a replica from %s to %s would break bounds or ratios", donor.Name, receiver.Name)
				continue
			}
			p.donate(donor, receiver)
			return
		}
	}
	if illegal != "" {
		p.notTransferred(StepBlocked, illegal)
		return
	}
	p.notTransferred(StepNotApplicable, "no role of the same instanceType may give a replica")
}

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

// donate begins the transfer: the donor goes first, everything else waits.
func (p *pass) donate(donor, receiver *role) {
	p.freeze()
	started := stamp(p.now)
	b := workerv1.RebalanceStatus{ExhaustionEpisodeGeneration: p.target.Generation}
	if p.state.Rebalance != nil {
		b = *p.state.Rebalance
	}
	b.DonorRole, b.DonorTargetReplicas = donor.Name, donor.Replicas-1
	b.ReceiverRole, b.ReceiverTargetReplicas = receiver.Name, receiver.Replicas+1
	b.StartedAt, b.DonationAttempted, b.Reason = &started, true, StepDonorRelease
	p.transfer(fence.CommitDonate, donor, donor.Replicas-1, &b)
}

// transfer makes one leg the commit of this pass.
func (p *pass) transfer(kind fence.CommitKind, r *role, count int32, after *workerv1.RebalanceStatus) {
	r.moveTo(StageRebalance, count, RuleRebalance)
	p.write = &Commit{Kind: kind, rebalance: after}
}

// endTransfer ends a running transfer without a write; the donor regrows by its own recommendation.
func (p *pass) endTransfer(reason string) {
	ended := *p.state.Rebalance
	ended.Reason = reason
	p.state.Rebalance = &ended
}

// notTransferred records why there is no transfer in this pass.
func (p *pass) notTransferred(reason, message string) {
	b := workerv1.RebalanceStatus{ExhaustionEpisodeGeneration: p.target.Generation}
	if p.state.Rebalance != nil {
		b = *p.state.Rebalance
	}
	b.Reason = reason
	p.state.Rebalance = &b
	p.standstill = obstacle{reason, message}
}

// afterRollback is the transfer's record once a growth was taken back: the acquisition failed, or an episode begins or goes on.
func (p *pass) afterRollback() *workerv1.RebalanceStatus {
	if p.spec.Rebalance.Policy == workerv1.RebalanceDisabled {
		return nil
	}
	b := workerv1.RebalanceStatus{ExhaustionEpisodeGeneration: p.target.Generation}
	if p.state.Rebalance != nil {
		b = *p.state.Rebalance
	}
	if b.Reason = StepResourceExhausted; b.DonationAttempted {
		b.Reason = StepBlocked
	}
	return &b
}

// afterRestore is the transfer's record once the donor's replica came back (spec "Pacing and guards").
func (p *pass) afterRestore() *workerv1.RebalanceStatus {
	if !transferRuns(p.state.Rebalance) {
		return nil
	}
	cancelled := *p.state.Rebalance
	cancelled.Reason = StepDonationAttempted
	return &cancelled
}

// adoptedTransfer is the record of a leg that was found on the target (D33).
func (p *pass) adoptedTransfer(kind fence.CommitKind, baseline, vector workerv1.Vector) *workerv1.RebalanceStatus {
	b := workerv1.RebalanceStatus{ExhaustionEpisodeGeneration: p.target.Generation}
	if p.state.Rebalance != nil {
		b = *p.state.Rebalance
	}
	started := stamp(p.now)
	b.DonationAttempted, b.Reason = true, StepReceiverAcquire
	if kind == fence.CommitDonate {
		b.Reason, b.StartedAt = StepDonorRelease, &started
	}
	for _, r := range p.roles {
		switch was, is := baseline[r.Name], vector[r.Name]; {
		case is < was:
			b.DonorRole, b.DonorTargetReplicas = r.Name, is
		case is > was, b.ReceiverRole == "" && p.state.Exhaustion != nil && isExhausted(p.state.Exhaustion, r.Name):
			b.ReceiverRole, b.ReceiverTargetReplicas = r.Name, is
		}
	}
	return &b
}

// with changes one role's count in a vector that the caller owns.
func (p *pass) with(vector workerv1.Vector, r *role, by int32) workerv1.Vector {
	vector[r.Name] += by
	return vector
}

// legal says that a vector is within all bounds and bands.
func (p *pass) legal(vector workerv1.Vector) bool {
	for _, r := range p.roles {
		if count := vector[r.Name]; count < r.floorBound() || count > r.bounds.MaxReplicas {
			return false
		}
	}
	return violated(p.bands, vector) == nil
}
