package decide

import (
	"fmt"
	"strings"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
)

// adopt takes over a decision that an earlier leader made and did not record (D33): its baseline is what the status last said.
func (p *pass) adopt(d fence.Decision) {
	baseline := make(workerv1.Vector, len(d.Vector))
	for name, count := range d.Vector {
		baseline[name] = count
		if known := p.in.State.role(name); known != nil {
			baseline[name] = known.Current
		}
	}
	c := Commit{Decision: d, Kind: kindOf(d.DecisionID), Baseline: baseline}
	p.keepRoles()
	switch c.Kind {
	case fence.CommitUp, fence.CommitDown:
		p.endBefore(c.Kind)
	case fence.CommitRollback:
		c.exhausted = p.exhaustionAfter(baseline, d.Vector)
		c.rebalance = p.afterRollback()
	case fence.CommitRestore:
		c.cooldown, c.rebalance = p.nextCooldown(), p.afterRestore()
	case fence.CommitDonate, fence.CommitAcquire:
		c.rebalance = p.adoptedTransfer(c.Kind, baseline, d.Vector)
	}
	c.Why = p.whyAdopted(c)
	p.decision.Adopted = &c
	p.state = p.state.after(c, p.now, p.target.Generation)
}

// whyAdopted is all that the target tells of an earlier leader's decision.
func (p *pass) whyAdopted(c Commit) string {
	var moved []string
	for _, r := range p.roles {
		if before, now := c.Baseline[r.Name], c.Decision.Vector[r.Name]; before != now {
			moved = append(moved, fmt.Sprintf("%s from %d to %d", r.Name, before, now))
		}
	}
	if len(moved) == 0 { // the status knew
		moved = []string{"no count since the last report"}
	}
	return short(fmt.Sprintf("%s: %s (decision %s of an earlier leader)", c.Kind, strings.Join(moved, "; "), c.Decision.DecisionID))
}

// endBefore takes over what an adopted ordinary commit proves: no transfer was running any more, and, if it grew, an earlier
// cohort had been admitted.
func (p *pass) endBefore(kind fence.CommitKind) {
	if kind == fence.CommitUp && p.state.PendingCohort != nil {
		p.state.Exhaustion, p.state.Rebalance = nil, nil
	}
	if transferRuns(p.state.Rebalance) {
		p.endTransfer(StepDonationAttempted)
	}
}
