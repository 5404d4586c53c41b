package decide

// Plan decides one pass (D23). It never changes in, and the same in always gives the same Decision.
func Plan(in Input) Decision {
	p := newPass(in)
	if p.stoppedBy(ownership) { // may this scaler plan this target at all?
		return p.decision
	}
	p.observeRoles()   // how far can each role's signals be used?
	p.recommend()      // what does the algorithm want?
	p.reviewEpisodes() // is a growth admitted, has a refusal lost its meaning?
	p.conflict = p.findConflict()
	switch {
	case p.recovers(): // is a removal or a growth to be undone? then nothing else moves
	case p.conflict != nil: // may the current vector be planned under this policy?
		p.stay(StageBounds, p.conflict.reason)
	default:
		p.constrain()   // windows, steps, bounds, guards: role by role
		p.project()     // ratios: component by component
		p.growthFirst() // one commit moves one way
		p.rebalance()   // may capacity move from one role to another?
	}
	p.commit()
	p.conclude() // conditions, reasons, memory
	return p.decision
}
