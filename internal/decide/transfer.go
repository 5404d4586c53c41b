package decide

import (
	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
)

func transferRuns(b *workerv1.RebalanceStatus) bool {
	return b != nil && (b.Reason == StepDonorRelease || b.Reason == StepReceiverAcquire)
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
