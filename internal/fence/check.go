package fence

import "maps"

// Object is a ModelDeployment as far as the fence looks at it.
type Object struct {
	UID         string
	Counts      map[string]int32 // by role name, after defaulting (D47)
	Annotations map[string]string
}

// Request is one write to judge.
type Request struct {
	Namespace, Name string
	// Decider says that the write comes from the trusted writer (D38).
	Decider bool
	// Old is nil when the deployment is being created.
	Old *Object
	New Object
	// Facts answers what only a live read can tell.
	Facts Facts
}

// Facts are live reads, never a cache's. They are asked by the rules that need them alone, at most once a write.
type Facts struct {
	// Scaler of that name in the deployment's namespace; nil when there is none.
	Scaler func(name string) (*Scaler, error)
	// Epoch of the decider's Lease (D52).
	Epoch func() (Epoch, error)
}

// Scaler is what the fence needs to know of a live scaler.
type Scaler struct {
	UID string
	// TargetUID and Term that the scaler's own status records.
	TargetUID string
	Term      int64
}

// Check is the table of who may change what. It returns nil when the write is allowed. Any write may change anything that
// is neither a count nor one of the two annotations.
//
//	                 | created    | unbound            | binding unreadable     | bound
//	-----------------+------------+--------------------+------------------------+---------------------------------
//	anybody, counts  | yes        | yes                | yes                    | no
//	anybody, binding | no         | no                 | remove, or put back    | remove, when its scaler is gone
//	anybody, decision| no         | remove             | remove                 | only with an orphaned binding
//	decider, counts  | yes        | when it binds      | no                     | with a decision
//	decider, binding | no         | install            | remove                 | remove
//	decider, decision| no         | when it binds      | no                     | with counts
//
// A deployment whose binding cannot be read is unclaimed (spec "Binding fence"): its counts are anybody's but the decider's.
func Check(r Request) *Refusal {
	w := newWrite(r)
	if w.Old != nil && !w.commits() && !w.binding.changed() {
		return nil
	}
	for _, rule := range w.rules() {
		if refusal := rule(w); refusal != nil {
			return refusal
		}
	}
	return nil
}

// rule judges one aspect of a write; rules of a chain may rely on those before them.
type rule func(*write) *Refusal

func (w *write) rules() []rule {
	switch {
	case w.Old == nil:
		return []rule{noOwnerAtBirth}
	case w.Decider:
		return w.deciderRules()
	case !w.binding.was:
		return []rule{bindingNotInstalled, decisionNotWritten}
	case w.ownerErr != nil:
		return []rule{bindingRemovedOrPutBack, decisionNotWritten}
	default:
		return []rule{countsKept, bindingKeptOrOrphaned, decisionKept}
	}
}

func (w *write) deciderRules() (rules []rule) {
	switch {
	case !w.binding.was:
		rules = []rule{bindingInstalled, termOverLeftover}
	case w.ownerErr != nil:
		rules = []rule{unreadableOnlyRemoved}
	default:
		rules = []rule{bindingKeptOrReleased}
	}
	if w.commits() {
		rules = append(rules, commit...)
	}
	return rules
}

// write is a request with what the rules ask about it.
type write struct {
	Request
	counts            bool // some count, or the set of roles, changes
	binding, decision change
	owner             Binding // before the write, when it is readable
	ownerErr          error
}

func newWrite(r Request) *write {
	w := &write{Request: r}
	var before map[string]string
	if r.Old != nil {
		before = r.Old.Annotations
		w.counts = !maps.Equal(r.Old.Counts, r.New.Counts)
	}
	w.binding = compare(before, r.New.Annotations, BindingAnnotation)
	w.decision = compare(before, r.New.Annotations, DecisionAnnotation)
	if w.binding.was {
		w.owner, w.ownerErr = ParseBinding(w.binding.before)
	}
	return w
}

// commits: counts or decision change.
func (w *write) commits() bool { return w.counts || w.decision.changed() }

// change is what a write does to one annotation. An empty value is a value.
type change struct {
	was, is       bool
	before, after string
}

func compare(before, after map[string]string, key string) (c change) {
	c.before, c.was = before[key]
	c.after, c.is = after[key]
	return c
}

func (c change) changed() bool { return c.was != c.is || c.before != c.after }

func (c change) removed() bool { return c.was && !c.is }

// written: installed, or given another value.
func (c change) written() bool { return c.is && c.changed() }
