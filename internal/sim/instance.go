package sim

import (
	"slices"
	"time"

	"gpustack.ai/model-deployment-scaler/internal/target"
)

// State of an instance.
type State string

// The states, in order. Whoever has left the last one is gone.
const (
	Pending  State = "Pending"  // wants quota
	Starting State = "Starting" // has quota, its engine loads
	Ready    State = "Ready"    // serves; also while it retires and drains
	Deleting State = "Deleting" // its Pods are being deleted
	Settling State = "Settling" // its Pods are gone, its quota is not
)

// Instance is what there is to know of one instance.
type Instance struct {
	// ID is never used twice: an ordinal that comes back is another instance.
	ID      int
	Role    target.Role
	Ordinal int
	State   State
	// Since is when it came into its state.
	Since time.Time
	// Eligible for new requests.
	Eligible bool
	// Started is when its engine started last; Restarts counts the starts after the first.
	Started  time.Time
	Restarts int
	// Evictions counts how often its quota was taken away.
	Evictions int
	// Running and Waiting requests; zero without an engine.
	Running, Waiting int
}

// Admitted says that it has quota.
func (i Instance) Admitted() bool { return i.State != Pending }

type instance struct {
	id        int
	role      target.Role
	ordinal   int
	state     State
	created   float64 // when it began to wait for quota
	since     float64
	eligible  bool
	started   float64
	restarts  int
	evictions int
	engine    *Engine // while Ready
}

// Instances of a deployment, by role in spec order, then by ordinal.
func (w *World) Instances(key Key) []Instance {
	d := w.find(key)
	if d == nil {
		return nil
	}
	list := make([]Instance, len(d.instances))
	for n, i := range d.instances {
		list[n] = Instance{
			ID: i.id, Role: i.role, Ordinal: i.ordinal, State: i.state, Since: w.at(i.since),
			Eligible: i.eligible, Started: w.at(i.started), Restarts: i.restarts, Evictions: i.evictions,
		}
		if i.engine != nil {
			list[n].Running, list[n].Waiting = i.engine.Running(), i.engine.Waiting()
		}
	}
	return list
}

// AppendPage appends the /metrics page of an instance; false when its engine does not answer.
func (w *World) AppendPage(dst []byte, key Key, id int) ([]byte, bool) {
	d, i := w.instance(key, id)
	if i == nil || i.engine == nil {
		return dst, false
	}
	return i.engine.AppendPage(dst, Page{Model: d.model, Started: w.at(i.started), Now: w.Now()}), true
}

// Engine of an instance, to look at; nil when it has none now.
func (w *World) Engine(key Key, id int) *Engine {
	if _, i := w.instance(key, id); i != nil {
		return i.engine
	}
	return nil
}

// Restart kills the engine of an instance, which starts again from nothing: counters at zero, requests lost.
func (w *World) Restart(key Key, id int) {
	d, i := w.instance(key, id)
	if i == nil || i.engine == nil {
		return
	}
	w.kill(d, i)
	i.restarts++
	i.enter(Starting, w.now)
}

// Evict takes the quota of an instance away: its engine dies, and it waits for quota again, behind all others. One that has none,
// or is on its way out, is left alone.
func (w *World) Evict(key Key, id int) {
	d, i := w.instance(key, id)
	if i == nil || i.state != Starting && i.state != Ready || d.retiring(i) {
		return
	}
	w.kill(d, i)
	i.evictions++
	i.created = w.now
	i.enter(Pending, w.now)
	w.shape(d) // one that is no longer wanted has nothing left to retire
}

// Lose takes an instance out of the world, as when its Pod was deleted from outside or its node died. Its ordinal, if it is
// still wanted, starts anew.
func (w *World) Lose(key Key, id int) {
	d, i := w.instance(key, id)
	if i == nil {
		return
	}
	w.drop(d, i)
	w.shape(d)
}

func (w *World) instance(key Key, id int) (*deployment, *instance) {
	d := w.find(key)
	if d == nil {
		return nil, nil
	}
	for _, i := range d.instances {
		if i.id == id {
			return d, i
		}
	}
	return d, nil
}

func (i *instance) enter(s State, now float64) { i.state, i.since = s, now }

// kill ends its engine; what it had not finished is lost.
func (w *World) kill(d *deployment, i *instance) {
	if i.engine == nil {
		return
	}
	d.totals.Lost += uint64(i.engine.Load())
	i.engine, i.eligible = nil, false
}

// drop takes an instance out.
func (w *World) drop(d *deployment, i *instance) {
	w.kill(d, i)
	d.instances = slices.DeleteFunc(d.instances, func(other *instance) bool { return other == i })
	if d.retirement != nil && d.retirement.ID == i.id {
		d.retirement = nil
	}
}

// shape brings the set of instances in line with the spec as far as that needs no protocol: missing ordinals are created,
// surplus ones without quota vanish. The others wait for their retirement.
func (w *World) shape(d *deployment) {
	for n := len(d.instances) - 1; n >= 0; n-- {
		if i := d.instances[n]; i.state == Pending && !d.wants(i) {
			w.drop(d, i)
		}
	}
	for _, role := range d.spec.Roles {
		for ordinal := range int(role.Replicas) {
			if d.at(role.Name, ordinal) == nil {
				w.serial++
				d.instances = append(d.instances, &instance{
					id: w.serial, role: role, ordinal: ordinal, state: Pending, created: w.now, since: w.now,
				})
			}
		}
	}
	d.sorted()
}

// wants says whether the spec declares the instance.
func (d *deployment) wants(i *instance) bool {
	role, ok := d.spec.Role(i.role.Name)
	return ok && i.ordinal < int(role.Replicas)
}

func (d *deployment) at(role string, ordinal int) *instance {
	for _, i := range d.instances {
		if i.role.Name == role && i.ordinal == ordinal {
			return i
		}
	}
	return nil
}

// boot starts the engine of an instance whose cold start is over.
func (w *World) boot(d *deployment, i *instance) {
	i.engine = NewEngine(dialect(d.spec.Engine), i.kind(), w.capacity(i.kind()), w.now)
	i.started, i.eligible = w.now, true
	i.enter(Ready, w.now)
}

// elapsed says whether the instance has been in its state for that long.
func (w *World) elapsed(i *instance, d time.Duration) bool { return w.now-i.since >= d.Seconds()-1e-9 }
