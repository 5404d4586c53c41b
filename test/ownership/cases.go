package ownership

import (
	"iter"
	"slices"
)

// Case is one write by somebody to a deployment in some state.
type Case struct {
	Actor    Actor
	State    State
	Deleting bool // the deployment is on its way out; no rule may depend on it (D46)
	Counts   Counts
	Binding  Binding
	Decision Decision
}

// Actor is who writes.
type Actor string

// The actors. All but the decider are "a user" to the fence, whatever their rights (D38).
const (
	Decider  Actor = "decider"
	User     Actor = "user"
	Admin    Actor = "administrator"
	GitOps   Actor = "GitOps controller"
	Operator Actor = "operator" // passes on what users write through an aggregated API (D49)
	Neighbor Actor = "another service account of the scaler's namespace"
)

// State is what a deployment is in before the write.
type State string

// The states. Every deployment that has a decision has 2 of each role in it, under term 3 and sequence 7.
const (
	Unbound    State = "unbound"
	Leftover   State = "unbound with a left-over decision"
	Fresh      State = "bound, nothing committed"
	Bound      State = "bound"
	Rebound    State = "bound under a term over its decision's"
	Orphaned   State = "bound by a scaler that is gone"
	Replaced   State = "bound by an earlier scaler of the same name"
	Unreadable State = "binding with an unknown field"
	Emptied    State = "empty binding"
)

// Counts is what a write does to the replica counts.
type Counts string

// The changes of counts.
const (
	SameCounts Counts = "counts kept"
	Grow       Counts = "a role grows"
	Shrink     Counts = "a role shrinks"
	Both       Counts = "one role grows, one shrinks"
	AddRole    Counts = "a role is added"
	DropRole   Counts = "a role is dropped"
	RenameRole Counts = "a role is renamed"
	OmitCount  Counts = "a count is left out" // falls to its default, 1
	Reorder    Counts = "roles in another order"
)

// Binding is what a write does to the binding.
type Binding string

// The changes of the binding.
const (
	SameBinding    Binding = "binding kept"
	RemoveBinding  Binding = "binding removed"
	NextTerm       Binding = "own binding under term 4"
	GarbageBinding Binding = "binding that is no JSON"
	ForeignBinding Binding = "another scaler's binding"
	LowerTerm      Binding = "own binding under term 2"
	RecordedTerm   Binding = "the binding that the scaler has on record" // term 3
	OtherSpelling  Binding = "the same in another spelling"
	EmptyBinding   Binding = "binding emptied"
)

// Decision is what a write does to the decision.
type Decision string

// The changes of the decision. From StaleEpoch on they are a commit but for one thing.
const (
	SameDecision    Decision = "decision kept"
	RemoveDecision  Decision = "decision removed"
	Commit          Decision = "decision that fits" // counts, term and direction of this very write, sequence 8, current epoch
	EmptyDecision   Decision = "decision emptied"
	GarbageDecision Decision = "decision that is no JSON"
	StaleEpoch      Decision = "decision of an earlier leader"
	SameSequence    Decision = "decision with the sequence of the last one"
	LowerSequence   Decision = "decision with a lower sequence"
	OtherTerm       Decision = "decision under another term"
	OtherVector     Decision = "decision for other counts"
	OtherKind       Decision = "decision of the other direction"
	UnknownField    Decision = "decision with an unknown field"
)

// The dimensions of the table.
var (
	Actors    = []Actor{Decider, User, Admin, GitOps, Operator, Neighbor}
	States    = []State{Unbound, Leftover, Fresh, Bound, Rebound, Orphaned, Replaced, Unreadable, Emptied}
	counts    = []Counts{SameCounts, Grow, Shrink, Both, AddRole, DropRole, RenameRole, OmitCount, Reorder}
	bindings  = []Binding{SameBinding, RemoveBinding, NextTerm, GarbageBinding, ForeignBinding, LowerTerm, RecordedTerm, OtherSpelling, EmptyBinding}
	decisions = []Decision{SameDecision, RemoveDecision, Commit, EmptyDecision, GarbageDecision, StaleEpoch, SameSequence, LowerSequence,
		OtherTerm, OtherVector, OtherKind, UnknownField}
)

// All combinations.
func All() iter.Seq[Case] {
	return func(yield func(Case) bool) {
		for _, actor := range Actors {
			for c := range by(actor) {
				if !yield(c) {
					return
				}
			}
		}
	}
}

func by(actor Actor) iter.Seq[Case] {
	return func(yield func(Case) bool) {
		for _, state := range States {
			for _, deleting := range []bool{false, true} {
				for _, c := range counts {
					for _, b := range bindings {
						for _, d := range decisions {
							if !yield(Case{actor, state, deleting, c, b, d}) {
								return
							}
						}
					}
				}
			}
		}
	}
}

// Sample is the table for a real API server: of several changes that are the same to every rule (a decision that a user may not
// write anyway, a binding that the decider may not install anyway, ways to move counts) one or two are enough there. The actors
// that are not the decider take turns.
func Sample() iter.Seq[Case] {
	return func(yield func(Case) bool) {
		others, turn := Actors[1:], 0
		for c := range by(User) {
			if !slices.Contains([]Counts{SameCounts, Grow, DropRole, OmitCount}, c.Counts) || !slices.Contains(decisions[:4], c.Decision) {
				continue
			}
			c.Actor = others[turn%len(others)]
			turn++
			if !yield(c) {
				return
			}
		}
		for c := range by(Decider) {
			if slices.Contains([]Counts{SameCounts, Grow, Shrink, RenameRole}, c.Counts) && slices.Contains(bindings[:4], c.Binding) && !yield(c) {
				return
			}
		}
	}
}
