package fence

import "maps"

// Rules for the decider: it is trusted to be who it is, not to be right (D38).

// commit are the rules of a write that changes counts or decision, under the binding that stands after it. The last one
// costs a live read.
var commit = []rule{
	rolesKept,          // a commit moves counts, it adds and removes no role
	countsWithDecision, // counts and decision in one write
	termAgrees,         // under the binding's term
	vectorAgrees,       // saying the same
	sequenceGrows,      // never the same decision twice
	directionAgrees,    // growing or shrinking, as its kind says (D26)
	epochLeads,         // by the decider that leads (D52)
}

func bindingInstalled(w *write) *Refusal {
	if !w.binding.is {
		return w.distrust(NotBound, "the decider writes counts and decision of a deployment that it binds, and this write installs no "+
			"binding")
	}
	if _, err := ParseBinding(w.binding.after); err != nil {
		return w.distrust(InvalidBinding, "the binding to install cannot be read: %v", err)
	}
	return nil
}

// termOverLeftover: a first binding's term is over that of the decision that an earlier binding left (D35). One that cannot be
// read has no term to be over; its next commit replaces it.
func termOverLeftover(w *write) *Refusal {
	leftover, known := w.decisionBefore()
	if binding := w.bindingAfter(); known && binding.Term <= leftover.Term {
		return w.distrust(StaleTerm, "a binding under term %d is not over term %d of the decision that an earlier binding left",
			binding.Term, leftover.Term)
	}
	return nil
}

// unreadableOnlyRemoved: the decider does not know whose deployment it is, so it may do no more than clear the annotation.
func unreadableOnlyRemoved(w *write) *Refusal {
	if w.binding.removed() && !w.commits() {
		return nil
	}
	return w.refuse(InvalidBinding, "the binding cannot be read, so nobody knows whose counts these are: fix or remove the "+
		"annotation %s (%v)", BindingAnnotation, w.ownerErr)
}

// bindingKeptOrReleased: a binding is never replaced in place, so no scaler takes over another's deployment and no term
// moves while a binding stands. A release leaves the decision as the term's memory (D35).
func bindingKeptOrReleased(w *write) *Refusal {
	switch {
	case w.binding.written():
		return w.distrust(InvalidBinding, "the binding of %s cannot be replaced, only released", w.ownerName())
	case w.binding.removed() && w.commits():
		return w.distrust(InvalidBinding, "releasing the binding of %s must change neither counts nor decision", w.ownerName())
	}
	return nil
}

func rolesKept(w *write) *Refusal {
	for role := range w.Old.Counts {
		if _, ok := w.New.Counts[role]; !ok {
			return w.distrust(RolesChanged, "a commit cannot remove role %s", role)
		}
	}
	if len(w.Old.Counts) != len(w.New.Counts) {
		return w.distrust(RolesChanged, "a commit cannot add roles: %s", difference(w.Old.Counts, w.New.Counts))
	}
	return nil
}

func countsWithDecision(w *write) *Refusal {
	switch {
	case !w.decision.written():
		return w.distrust(DecisionMismatch, "counts change (%s) without their decision", difference(w.Old.Counts, w.New.Counts))
	case !w.counts:
		return w.distrust(DecisionMismatch, "a decision is written without changing a count")
	}
	if _, err := ParseDecision(w.decision.after); err != nil {
		return w.distrust(InvalidDecision, "the decision to write cannot be read: %v", err)
	}
	return nil
}

func termAgrees(w *write) *Refusal {
	if decision, binding := w.decisionAfter(), w.bindingAfter(); decision.Term != binding.Term {
		return w.distrust(StaleTerm, "a decision under term %d does not belong to the binding of scaler %s under term %d",
			decision.Term, binding.ScalerName, binding.Term)
	}
	return nil
}

func vectorAgrees(w *write) *Refusal {
	if vector := w.decisionAfter().Vector; !maps.Equal(vector, w.New.Counts) {
		return w.distrust(DecisionMismatch, "the decision's vector is not what the write makes of the counts: %s",
			difference(vector, w.New.Counts))
	}
	return nil
}

// sequenceGrows within a term. A binding under a new term starts its scaler's own numbering, so there only the identity has
// to be another one. A decision before this one that cannot be read says nothing to compare with.
func sequenceGrows(w *write) *Refusal {
	before, known := w.decisionBefore()
	after := w.decisionAfter()
	switch {
	case !known:
		return nil
	case after.DecisionID == before.DecisionID:
		return w.distrust(StaleDecision, "decision %s was committed before", after.DecisionID)
	case after.Term < before.Term:
		return w.distrust(StaleTerm, "a decision under term %d cannot follow one under term %d", after.Term, before.Term)
	case after.Term == before.Term && after.id().Sequence <= before.id().Sequence:
		return w.distrust(StaleDecision, "decision %s does not come after %s of the same term", after.DecisionID, before.DecisionID)
	}
	return nil
}

func directionAgrees(w *write) *Refusal {
	kind := w.decisionAfter().id().Kind
	for role, is := range w.New.Counts {
		was := w.Old.Counts[role]
		if kind.Grows() && is < was || !kind.Grows() && is > was {
			return w.distrust(DecisionMismatch, "a commit of kind %s cannot move role %s from %d to %d", kind, role, was, is)
		}
	}
	return nil
}

// epochLeads: a leader that was paused between its own check and its write cannot commit once another leads (D52).
func epochLeads(w *write) *Refusal {
	epoch, err := w.Facts.Epoch()
	if err != nil {
		return w.refuse(FactsNotAvailable, "which decider leads cannot be told, try again: %v", err)
	}
	if id := w.decisionAfter().id(); id.Epoch != epoch.String() {
		return w.refuse(StaleEpoch, "decision %s is of epoch %s, and epoch %s leads: another copy of the decider has taken over, and plans anew", id, id.Epoch, epoch)
	}
	return nil
}

// distrust refuses what the decider checks itself for before it writes.
func (w *write) distrust(reason Reason, format string, args ...any) *Refusal {
	return w.refuse(reason, format+". No decider of this version writes that: look for one of another version, or for somebody "+
		"who uses its ServiceAccount", args...)
}

// decisionBefore is false when there was none that can be read.
func (w *write) decisionBefore() (Decision, bool) {
	decision, err := ParseDecision(w.decision.before)
	return decision, err == nil
}

// bindingAfter and decisionAfter are called once rules before have seen that they can be read.

func (w *write) bindingAfter() Binding {
	binding, _ := ParseBinding(w.binding.after)
	return binding
}

func (w *write) decisionAfter() Decision {
	decision, _ := ParseDecision(w.decision.after)
	return decision
}

func (d Decision) id() DecisionID {
	id, _ := ParseDecisionID(d.DecisionID)
	return id
}
