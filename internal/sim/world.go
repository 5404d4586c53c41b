package sim

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// Options of a world.
type Options struct {
	// Capacity of the engines of a kind; kinds that are not listed have DefaultCapacity.
	Capacity map[observe.RoleKind]Capacity
	// AdmissionDelay between the wish for an instance and its quota, when there is room.
	AdmissionDelay time.Duration
	// ColdStart between the quota and a ready engine.
	ColdStart time.Duration
	// Quota in Pods of an instanceType; one that is not listed has no limit.
	Quota map[string]int
	// RetirementStep is the time spent in each step of a retirement, at least.
	RetirementStep time.Duration
	// DrainLimit after which a retirement that still has requests is aborted.
	DrainLimit time.Duration
	// Gone says what has left the cluster of a deleted instance: its Pods, its Workload. Without it they leave at once.
	Gone func(id int) (pods, workload bool)
}

// DefaultCapacity is a small model on one accelerator.
func DefaultCapacity() Capacity {
	return Capacity{
		PrefillTokensPerSecond: 8000,
		DecodeTokensPerSecond:  2400,
		RequestTokensPerSecond: 60,
		MaxRunning:             64,
		KVTokens:               200_000,
		PrefixHit:              0.3,
	}
}

// Key identifies a deployment.
type Key struct{ Namespace, Name, UID string }

// World is everything that is simulated. It is not safe for concurrent use.
type World struct {
	o           Options
	start       time.Time
	now         float64 // seconds since start
	deployments []*deployment
	serial      int
}

// NewWorld begins at a time.
func NewWorld(o Options, start time.Time) *World {
	return &World{o: o, start: start}
}

// deployment is one ModelDeployment in the world.
type deployment struct {
	key        Key
	spec       target.Deployment
	model      string
	instances  []*instance // by role in spec order, then by ordinal
	retirement *Retirement
	traffic    Traffic
	since      float64   // when the traffic began
	transit    []transit // requests that wait for an instance of their stage
	totals     Totals
}

// Totals of the requests of a deployment. Arrived = Finished + Lost + InFlight.
type Totals struct {
	Arrived, Finished uint64
	// Lost with engines that were killed.
	Lost uint64
	// InFlight now: before an engine, in one, or between two.
	InFlight uint64
}

// Apply creates or changes a deployment; its counts, kinds and sizes come from the spec. Model is the name it serves.
func (w *World) Apply(spec target.Deployment, model string) {
	key := Key{spec.Namespace, spec.Name, spec.UID}
	d := w.find(key)
	if d == nil {
		d = &deployment{key: key}
		w.deployments = append(w.deployments, d)
	}
	d.spec, d.model = spec, model
	w.shape(d)
}

// Remove ends a deployment at once.
func (w *World) Remove(key Key) {
	w.deployments = slices.DeleteFunc(w.deployments, func(d *deployment) bool { return d.key == key })
}

// Keys of the deployments, in order of creation.
func (w *World) Keys() []Key {
	keys := make([]Key, len(w.deployments))
	for i, d := range w.deployments {
		keys[i] = d.key
	}
	return keys
}

// SetTraffic of a deployment from now on; nil ends it.
func (w *World) SetTraffic(key Key, t Traffic) {
	if d := w.find(key); d != nil {
		d.traffic, d.since = t, w.now
	}
}

// Totals of a deployment so far.
func (w *World) Totals(key Key) Totals {
	d := w.find(key)
	if d == nil {
		return Totals{}
	}
	totals := d.totals
	totals.InFlight = uint64(len(d.transit))
	for _, i := range d.instances {
		if i.engine != nil {
			totals.InFlight += uint64(i.engine.Load())
		}
	}
	return totals
}

// longestStride keeps arrivals, handovers and the lifecycle within a human blink of their time.
const longestStride = 0.05

// Step goes on to a time. Going back does nothing.
func (w *World) Step(now time.Time) {
	to := now.Sub(w.start).Seconds()
	stride := math.Max(longestStride, (to-w.now)/4096) // a long pause must not take for ever
	for w.now < to {
		next := math.Min(to, w.now+stride)
		for _, d := range w.deployments {
			w.serve(d, next)
		}
		w.now = next
		w.admit()
		for _, d := range w.deployments {
			w.settle(d)
		}
	}
}

// Now is the time that the world has reached.
func (w *World) Now() time.Time { return w.at(w.now) }

func (w *World) at(seconds float64) time.Time {
	return w.start.Add(time.Duration(seconds * float64(time.Second)))
}

func (w *World) find(key Key) *deployment {
	for _, d := range w.deployments {
		if d.key == key {
			return d
		}
	}
	return nil
}

func (w *World) capacity(kind observe.RoleKind) Capacity {
	if c, ok := w.o.Capacity[kind]; ok {
		return c
	}
	return DefaultCapacity()
}

// sorted keeps the instances in the order of the spec, then by ordinal.
func (d *deployment) sorted() {
	place := make(map[string]int, len(d.spec.Roles))
	for i, r := range d.spec.Roles {
		place[r.Name] = i
	}
	slices.SortStableFunc(d.instances, func(a, b *instance) int {
		return cmp.Or(cmp.Compare(place[a.role.Name], place[b.role.Name]), cmp.Compare(a.ordinal, b.ordinal))
	})
}
