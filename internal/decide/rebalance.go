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
