package decide

import (
	"maps"
	"time"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// recovery is what undoes an earlier commit in this pass.
type recovery struct {
	reason string  // of the condition Blocked; empty when nothing is to be undone
	stuck  string  // in people's words, why it cannot be; empty when it can
	commit *Commit // kind and consequences; nil when it cannot be
}

// recoveries undo what went wrong, in the order in which they go first. One of them is all that a pass does (D30).
var recoveries = []func(*pass) recovery{
	restoreAborted, // a removal was aborted: its replicas come back
	rollBack,       // a growth was not admitted in time: it is taken back as a whole
}

// recovers takes the first recovery that is due. It needs bounds for every role.
func (p *pass) recovers() bool {
	if !p.owns() || unclearBounds(p) != nil {
		return false
	}
	for _, due := range recoveries {
		if p.recovery = due(p); p.recovery.reason != "" {
			if p.write = p.recovery.commit; p.write == nil {
				p.stay(StageRecover, p.recovery.reason)
			}
			return true
		}
	}
	return false
}

// reviewEpisodes closes a cohort once all of it is admitted, and ends an exhaustion episode that has lost its meaning: by that
// admission, or by an edit of somebody else's (D31).
func (p *pass) reviewEpisodes() {
	if c := p.state.PendingCohort; c != nil && len(p.refused(c)) == 0 {
		p.state.PendingCohort, p.state.Exhaustion, p.state.Rebalance = nil, nil, nil
	}
	if last := p.state.LastCommit; last != nil && last.TargetGeneration > 0 && p.target.Generation > last.TargetGeneration {
		p.endEpisode()
	}
}

// endEpisode forgets a refusal and its donation; a transfer that runs goes on.
func (p *pass) endEpisode() {
	p.state.Exhaustion = nil
	if !transferRuns(p.state.Rebalance) {
		p.state.Rebalance = nil
	}
}

// refused is, by role, the growth of the cohort that has a replica without admission.
func (p *pass) refused(c *workerv1.PendingCohort) workerv1.Vector {
	refused := workerv1.Vector{}
	for _, r := range p.roles {
		from, to := c.BaselineVector[r.Name], min(c.TargetVector[r.Name], r.Replicas)
		if to > from && r.firstPending(from, to) >= 0 {
			refused[r.Name] = to - from
		}
	}
	return refused
}

func restoreAborted(p *pass) recovery {
	removal, aborted := p.state.LastScaleDown, p.target.Retirement
	if removal == nil || removal.Outcome != workerv1.ScaleDownCommitted || aborted == nil || aborted.State != target.RetirementAborted {
		return recovery{}
	}
	r := p.role(aborted.Role)
	if r == nil || aborted.ObservedGeneration < removal.TargetGeneration ||
		aborted.Ordinal < int(r.Replicas) || aborted.Ordinal >= int(removal.PreScaleDownVector[r.Name]) {
		return recovery{}
	}
	before := p.current()
	if kindOf(removal.DecisionID) == fence.CommitRollback {
		before[r.Name] = int32(aborted.Ordinal) + 1
	} else {
		for name, count := range removal.PreScaleDownVector {
			before[name] = max(before[name], count)
		}
	}
	return p.undo(before, recovery{
		reason: workerv1.ReasonScaleDownAborted,
		stuck:  "the replicas of an aborted removal cannot come back under the present bounds and ratios",
		commit: &Commit{Kind: fence.CommitRestore, cooldown: p.nextCooldown(), rebalance: p.afterRestore()},
	}, RuleRestore)
}

func rollBack(p *pass) recovery {
	c := p.state.PendingCohort
	if c == nil || !p.now.After(c.StartedAt.Add(p.pendingTimeout())) {
		return recovery{}
	}
	before := p.current()
	for name, count := range c.BaselineVector {
		if c.TargetVector[name] > count {
			before[name] = min(before[name], count)
		}
	}
	return p.undo(before, recovery{
		reason: workerv1.ReasonResourceExhausted,
		stuck:  "a growth that was not admitted cannot be taken back under the present bounds and ratios",
		commit: &Commit{Kind: fence.CommitRollback, exhausted: p.exhaustionBy(p.refused(c)), rebalance: p.afterRollback()},
	}, RuleRollback)
}

// undo moves the roles to the vector, or to the legal one nearest to it in the same direction when the policy was edited
// meanwhile (D30). When there is none, the recovery is stuck.
func (p *pass) undo(vector workerv1.Vector, r recovery, rule string) recovery {
	maps.DeleteFunc(vector, func(name string, _ int32) bool { return p.role(name) == nil })
	legal, found := p.nearestLegal(vector, r.commit.Kind.Grows())
	if !found {
		r.commit = nil
		return r
	}
	for i, role := range p.roles {
		role.moveTo(StageRecover, legal[i], rule)
	}
	r.stuck = ""
	return r
}

// nearestLegal is the vector within bounds and bands that is nearest to wish without moving a role the other way; in the
// order of the roles.
func (p *pass) nearestLegal(wish workerv1.Vector, upward bool) ([]int32, bool) {
	counts := make([]int32, len(p.roles))
	for _, c := range p.components() {
		s := newSearch(&c, upward, planningBudget)
		for i, r := range c.roles {
			s.wish[i] = wish[r.Name]
			s.low[i], s.top[i] = r.floorBound(), min(r.Replicas, r.bounds.MaxReplicas)
			if upward {
				s.low[i], s.top[i] = max(r.Replicas, r.floorBound()), r.bounds.MaxReplicas
			}
			if s.low[i] > s.top[i] {
				return nil, false
			}
		}
		best, decided := s.run()
		if !decided {
			return nil, false
		}
		for i, r := range c.roles {
			for at := range p.roles {
				if p.roles[at] == r {
					counts[at] = best[i]
				}
			}
		}
	}
	return counts, true
}

// exhaustionBy is the episode after the given growth, by role, was refused (D31).
func (p *pass) exhaustionBy(refused workerv1.Vector) *workerv1.ExhaustionStatus {
	e := &workerv1.ExhaustionStatus{Attempts: 1, Increment: workerv1.Vector{}}
	if before := p.state.Exhaustion; before != nil {
		e.Attempts = saturated(int64(before.Attempts) + 1)
		maps.Copy(e.Increment, before.Increment)
	}
	maps.Copy(e.Increment, refused)
	for _, r := range p.roles {
		if before := p.state.Exhaustion; refused[r.Name] > 0 || before != nil && isExhausted(before, r.Name) {
			e.Roles = append(e.Roles, r.Name)
		}
	}
	e.BlockedUntil = stamp(p.now.Add(backoff(p.pendingTimeout(), e.Attempts)))
	return e
}

// exhaustionAfter is the episode of a rollback that was found on the target: what it took back was refused.
func (p *pass) exhaustionAfter(before, after workerv1.Vector) *workerv1.ExhaustionStatus {
	refused := workerv1.Vector{}
	for name, count := range before {
		if count > after[name] {
			refused[name] = count - after[name]
		}
	}
	return p.exhaustionBy(refused)
}

// nextCooldown is the rest of the target after one more aborted removal of the same role.
func (p *pass) nextCooldown() time.Duration {
	aborts := int32(0)
	if p.state.LastScaleDown != nil {
		aborts = p.state.LastScaleDown.ConsecutiveAborts
	}
	return p.cooldown(saturated(int64(aborts) + 1))
}
