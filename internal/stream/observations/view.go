package observations

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gpustack.ai/model-deployment-scaler/internal/decide"
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// Pass is what one planning pass has to tell.
type Pass struct {
	Namespace, Scaler string
	// Time of the pass, wall clock and monotonic: when the ages of its observations were true.
	Time time.Time
	// Hold says why nothing was planned at all; empty when a plan was made.
	Hold string
	// DecisionID of what was written in this pass; empty when nothing was.
	DecisionID string
	// Roles in the order of the target's spec.
	Roles []Role
}

// Role is what a pass made of one role.
type Role struct {
	Name string
	// Observation that the plan was made on, and the Shard that made it; nil: none.
	Observation *observe.RoleObservation
	Shard       string
	// Current is the count that was planned on, Ready the serving replicas, Raw what the algorithm wants, Constrained what is
	// left of it.
	Current, Ready, Raw, Constrained int32
	Signal                           observe.SignalState
	Reason                           string
	// Trace is the count after each stage.
	Trace []decide.Step
}

// key of a role as scalers see it: a target's role is told once for each scaler of the target.
type key struct{ namespace, scaler, role string }

func (k key) compare(o key) int {
	return cmp.Or(cmp.Compare(k.namespace, o.namespace), cmp.Compare(k.scaler, o.scaler), cmp.Compare(k.role, o.role))
}

// selector of roles; what is empty selects all.
type selector key

func (s selector) selects(k key) bool {
	return (s.namespace == "" || s.namespace == k.namespace) && (s.scaler == "" || s.scaler == k.scaler) && (s.role == "" || s.role == k.role)
}

// entry is the latest of one role. It never changes.
type entry struct {
	key
	pass   Pass
	latest Role
	gone   bool // the role or its scaler is
}

// View is what the leader has to show. It is made for one leadership.
type View struct {
	dropped prometheus.Counter
	ended   chan struct{} // closed with the leadership

	mu      sync.Mutex
	scalers map[key][]*entry // by namespace and scaler
	watches map[*queue]struct{}
}

// NewView makes an empty view; dropped counts what slow readers lose.
func NewView(dropped prometheus.Counter) *View {
	return &View{dropped: dropped, ended: make(chan struct{}), scalers: make(map[key][]*entry), watches: make(map[*queue]struct{})}
}

// Publish makes a pass the latest of its scaler and tells every watch. It never waits for a reader.
func (v *View) Publish(p Pass) {
	entries := make([]*entry, 0, len(p.Roles))
	for _, role := range p.Roles {
		entries = append(entries, &entry{key: key{p.Namespace, p.Scaler, role.Name}, pass: p, latest: role})
	}
	for _, e := range entries {
		e.pass.Roles = nil // each entry has its own
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	scaler := key{namespace: p.Namespace, scaler: p.Scaler}
	before := v.scalers[scaler]
	v.scalers[scaler] = entries
	v.tell(append(goneFrom(before, entries), entries...))
}

// Forget removes a scaler that is gone, and tells every watch.
func (v *View) Forget(namespace, scaler string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	name := key{namespace: namespace, scaler: scaler}
	before := v.scalers[name]
	delete(v.scalers, name)
	v.tell(goneFrom(before, nil))
}

// goneFrom marks the roles that there were before and are not now.
func goneFrom(before, now []*entry) (gone []*entry) {
	for _, e := range before {
		if !slices.ContainsFunc(now, func(n *entry) bool { return n.key == e.key }) {
			gone = append(gone, &entry{key: e.key, gone: true})
		}
	}
	return gone
}

// tell offers entries to every watch; with v.mu held.
func (v *View) tell(entries []*entry) {
	dropped := 0
	for q := range v.watches {
		for _, e := range entries {
			dropped += q.offer(e)
		}
	}
	v.dropped.Add(float64(dropped))
}

// End ends every watch with the leadership. It is called once.
func (v *View) End() { close(v.ended) }

// over says that the leadership has ended.
func (v *View) over() bool {
	select {
	case <-v.ended:
		return true
	default:
		return false
	}
}

// list gives what is selected, ordered.
func (v *View) list(s selector) []*entry {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.selected(s)
}

// watch gives what is selected, ordered, and a queue of everything after. The queue must be given back with unwatch.
func (v *View) watch(s selector) ([]*entry, *queue) {
	q := newQueue(s)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.watches[q] = struct{}{}
	return v.selected(s), q
}

func (v *View) unwatch(q *queue) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.watches, q)
}

// selected collects entries; with v.mu held.
func (v *View) selected(s selector) (found []*entry) {
	if s.namespace != "" && s.scaler != "" {
		return s.filter(nil, v.scalers[key{namespace: s.namespace, scaler: s.scaler}])
	}
	for _, entries := range v.scalers {
		found = s.filter(found, entries)
	}
	return found
}

func (s selector) filter(found, entries []*entry) []*entry {
	for _, e := range entries {
		if s.selects(e.key) {
			found = append(found, e)
		}
	}
	return found
}

func sorted(entries []*entry) []*entry {
	slices.SortFunc(entries, func(a, b *entry) int { return a.compare(b.key) })
	return entries
}
