package ownership

// Allowed is what the spec says about a write.
func (c Case) Allowed(n Names) bool {
	touched := c.touched(n)
	switch {
	case touched == change{}:
		return true // other fields remain editable
	case c.Actor == Decider:
		return c.deciderMay(touched)
	default:
		return c.anybodyMay(touched)
	}
}

// change is what a write really changes: bytes of an annotation, presence included, and counts by role name, after
// defaulting (D47).
type change struct{ counts, binding, decision bool }

func (c Case) touched(n Names) change {
	was, is := c.Old(n), c.New(n)
	return change{
		counts:   c.Counts != SameCounts && c.Counts != Reorder,
		binding:  differ(was.Binding, is.Binding),
		decision: differ(was.Decision, is.Decision),
	}
}

func differ(a, b *string) bool {
	return (a == nil) != (b == nil) || a != nil && *a != *b
}

// The state of the deployment, as the spec tells them apart.

func (c Case) unbound() bool { return c.State == Unbound || c.State == Leftover }

func (c Case) unclaimed() bool { return c.State == Unreadable || c.State == Emptied } // "cannot be parsed leaves the target unclaimed"

func (c Case) orphan() bool { return c.State == Orphaned || c.State == Replaced } // "absent or has a different UID"

// anybodyMay: what users may do.
func (c Case) anybodyMay(t change) bool {
	keepsOrDropsDecision := !t.decision || c.Decision == RemoveDecision
	switch {
	case c.unbound(): // "users may change counts but cannot install either ownership annotation"; a left-over decision may be deleted (D35)
		return !t.binding && keepsOrDropsDecision
	case c.unclaimed(): // "fix or remove the annotation", but nobody installs one for somebody
		removes := c.Binding == RemoveBinding
		fixes := (c.Binding == RecordedTerm || c.Binding == OtherSpelling) && !t.counts
		return (!t.binding || removes || fixes) && keepsOrDropsDecision
	default: // "refuses user changes to counts or either annotation"; orphans: "may remove that annotation", "counts unchanged"
		return c.orphan() && c.Binding == RemoveBinding && !t.counts && keepsOrDropsDecision
	}
}

// deciderMay: what the owner may do; it is trusted to be who it is, not to be right (D38).
func (c Case) deciderMay(t change) bool {
	installs := t.binding && (c.Binding == NextTerm || c.Binding == RecordedTerm || c.Binding == LowerTerm || c.Binding == OtherSpelling ||
		c.Binding == ForeignBinding)
	alone := !t.counts && !t.decision
	switch {
	case c.unclaimed(): // it "cannot tell which scaler owns the target"
		return c.Binding == RemoveBinding && alone
	case c.unbound(): // a first binding's term is over the left-over decision's (D35)
		fits := c.State == Unbound || c.termAfter() > 3
		return installs && fits && (alone || c.commits())
	case t.binding: // "a second scaler cannot take over"; releasing leaves the decision as the term's memory (D35)
		return c.Binding == RemoveBinding && alone
	default:
		return c.commits()
	}
}

// commits: counts and decision move together, and term, decision, vector, sequence, epoch and direction agree.
func (c Case) commits() bool {
	if c.Counts != Grow && c.Counts != Shrink && c.Counts != OmitCount { // one direction (D26), no role comes or goes (D47)
		return false
	}
	switch c.Decision {
	case Commit:
		return c.State != Leftover || c.termAfter() >= 3
	case LowerSequence:
		return !c.continues()
	case SameSequence: // under a new term the identity alone must be another one
		return !c.continues() && (c.State == Unbound || c.State == Fresh || c.kind() != "up")
	default:
		return false
	}
}

// continues says that there is a decision before this one under the same term, so that the sequence has to grow.
func (c Case) continues() bool {
	return c.State != Unbound && c.State != Fresh && c.termAfter() == 3
}
