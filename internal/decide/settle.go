package decide

import (
	"time"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
)

// Settle is the memory after the write of the decision was tried: State as it is when nothing was written, with all that a
// successful write changes otherwise.
func (d Decision) Settle(o Outcome) State {
	if !o.Written {
		return d.State
	}
	s := d.State
	if d.Release {
		s = s.released()
	}
	if d.Bind != nil {
		s.Binding.Term = d.Bind.Term
		s.Conditions = d.bound
	}
	if d.Commit != nil {
		s = s.after(*d.Commit, o.At, o.Generation)
	}
	return s
}

// released drops what only the owner of a binding may finish (D62): a pending cohort, a running removal, a transfer. The
// cooldown of an aborted removal stays.
func (s State) released() State {
	s.PendingCohort, s.Rebalance, s.Exhaustion = nil, nil, nil
	if s.LastScaleDown != nil && s.LastScaleDown.Outcome == workerv1.ScaleDownCommitted {
		s.LastScaleDown = nil
	}
	return s
}

// after is the memory once c is on the target, in the given generation.
func (s State) after(c Commit, at time.Time, generation int64) State {
	s.LastCommit = &workerv1.CommitStatus{
		DecisionID:       c.Decision.DecisionID,
		Term:             c.Decision.Term,
		Vector:           c.Decision.Vector,
		BaselineVector:   c.Baseline,
		Timestamp:        stamp(at),
		TargetGeneration: generation,
	}
	s.Roles = movedRoles(s.Roles, c, at)
	if c.rebalance != nil {
		s.Rebalance = c.rebalance
	}
	switch c.Kind {
	case fence.CommitUp, fence.CommitAcquire:
		s.PendingCohort = cohortOf(c, at)
	case fence.CommitDown, fence.CommitDonate:
		s.LastScaleDown = s.removal(c, generation)
	case fence.CommitRollback:
		s.PendingCohort = nil
		s.Exhaustion = c.exhausted
		s.LastScaleDown = s.removal(c, generation)
	case fence.CommitRestore:
		s.LastScaleDown = aborted(s.LastScaleDown, c, at)
	}
	return s
}

// movedRoles shows the new counts. Only ordinary growth counts as a scale-up (D30).
func movedRoles(roles []RoleState, c Commit, at time.Time) []RoleState {
	moved := make([]RoleState, len(roles))
	copy(moved, roles)
	for i := range moved {
		r := &moved[i]
		to, known := c.Decision.Vector[r.Name]
		if !known {
			continue
		}
		if to > c.Baseline[r.Name] && (c.Kind == fence.CommitUp || c.Kind == fence.CommitAcquire) {
			r.LastScaleUpTime = stamp(at).Time
		}
		r.Current = to
	}
	return moved
}

func cohortOf(c Commit, at time.Time) *workerv1.PendingCohort {
	return &workerv1.PendingCohort{
		DecisionID:     c.Decision.DecisionID,
		Term:           c.Decision.Term,
		BaselineVector: c.Baseline,
		TargetVector:   c.Decision.Vector,
		StartedAt:      stamp(at),
	}
}

// removal records what c removes: the first role in spec order that shrinks and its highest ordinal (D32). Aborts in a row
// are those of the same role.
func (s State) removal(c Commit, generation int64) *workerv1.ScaleDownStatus {
	for _, r := range s.Roles {
		was, is := c.Baseline[r.Name], c.Decision.Vector[r.Name]
		if is >= was {
			continue
		}
		removal := &workerv1.ScaleDownStatus{
			Role:               r.Name,
			Ordinal:            was - 1,
			DecisionID:         c.Decision.DecisionID,
			TargetGeneration:   generation,
			PreScaleDownVector: c.Baseline,
			Outcome:            workerv1.ScaleDownCommitted,
		}
		if before := s.LastScaleDown; before != nil && before.Role == r.Name && before.Outcome == workerv1.ScaleDownAborted {
			removal.ConsecutiveAborts = before.ConsecutiveAborts
		}
		return removal
	}
	return s.LastScaleDown
}

// aborted is the removal that c undoes, with its cooldown.
func aborted(removal *workerv1.ScaleDownStatus, c Commit, at time.Time) *workerv1.ScaleDownStatus {
	if removal == nil {
		return nil
	}
	undone := *removal
	start, end := stamp(at), stamp(at.Add(c.cooldown))
	undone.Outcome, undone.AbortedAt, undone.CooldownUntil = workerv1.ScaleDownAborted, &start, &end
	undone.ConsecutiveAborts++
	return &undone
}
