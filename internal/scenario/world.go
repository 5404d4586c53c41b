package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"gpustack.ai/model-deployment-scaler/internal/decide"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// world is a target that follows commits: quota, cold start, retirement. It is as small as the format needs it.
type world struct {
	World
	now        float64 // seconds
	uid        int
	generation int64
	version    int // of the object, with every write to it
	gone       bool
	roles      []Role
	instances  map[slot]*instance
	retirement *target.Retirement
	notes      map[string]string // annotations
	readings   map[string]Reading
	last       map[string]observe.RoleObservation
	seen       map[string]float64
}

type slot struct {
	role    string
	ordinal int
}

type instance struct {
	asked          float64 // when its admission was asked for; +Inf: it waits for an event
	admitted       bool
	admittedAt     float64
	pods, workload bool
	goneAt         float64 // of a removed one; +Inf: an event ends it
}

func newWorld(w World, t Target) *world {
	made := &world{World: w, notes: map[string]string{}, readings: map[string]Reading{}, last: map[string]observe.RoleObservation{}, seen: map[string]float64{}}
	made.create(t.Roles)
	return made
}

// create makes the target: all that it declares is there from the start.
func (w *world) create(roles []Role) {
	w.uid++
	w.version++
	w.generation, w.gone, w.retirement = 1, false, nil
	w.roles = slices.Clone(roles)
	w.instances = map[slot]*instance{}
	clear(w.notes)
	for _, r := range roles {
		for o := range int(r.Replicas) {
			w.instances[slot{r.Name, o}] = &instance{admitted: true, admittedAt: math.Inf(-1), pods: true, workload: true, goneAt: math.Inf(1)}
		}
	}
}

func (w *world) role(name string) *Role {
	for i := range w.roles {
		if w.roles[i].Name == name {
			return &w.roles[i]
		}
	}
	return nil
}

// counts is the vector that the target declares.
func (w *world) counts() Vector {
	v := make(Vector, len(w.roles))
	for _, r := range w.roles {
		v[r.Name] = r.Replicas
	}
	return v
}

// write plays a decision's write on the target. Outcome is what the API server would answer; conflict says that the plan was
// made on another version than the one that is there.
func (w *world) write(in decide.Input, d decide.Decision) (o decide.Outcome, conflict bool) {
	if d.Commit == nil && d.Bind == nil && !d.Release || w.gone {
		return decide.Outcome{}, false
	}
	if in.Target.ResourceVersion != strconv.Itoa(w.version) {
		return decide.Outcome{}, true
	}
	if d.Release {
		delete(w.notes, fence.BindingAnnotation)
	}
	if d.Bind != nil {
		w.notes[fence.BindingAnnotation] = d.Bind.String()
	}
	if d.Commit != nil {
		w.notes[fence.DecisionAnnotation] = d.Commit.Decision.String()
		w.resize(d.Commit.Decision.Vector)
	}
	w.version++
	return decide.Outcome{Written: true, Generation: w.generation, At: in.Now}, false
}

// resize declares counts as one write does: one generation, and the instances follow.
func (w *world) resize(counts map[string]int32) {
	w.generation++
	for i := range w.roles {
		r := &w.roles[i]
		r.Replicas = counts[r.Name]
		w.follow(r)
	}
}

// snapshot is the target as it is.
func (w *world) snapshot() *target.Snapshot {
	if w.gone {
		return nil
	}
	s := &target.Snapshot{Deployment: target.Deployment{
		Namespace: "default", Name: deployment, UID: fmt.Sprintf("target-%d", w.uid), Generation: w.generation,
		ResourceVersion: strconv.Itoa(w.version), Annotations: maps.Clone(w.notes), Engine: string(observe.VLLM), Retirement: w.retirement,
	}}
	for _, r := range w.roles {
		s.Roles = append(s.Roles, target.Role{Name: r.Name, Kind: kindNamed(r.Kind), Replicas: r.Replicas, Size: max(1, r.Size),
			InstanceType: r.InstanceType, Unmanaged: len(r.Command) > 0, ElasticEP: r.ElasticEP != nil})
	}
	for at, in := range w.instances {
		if in.pods || in.workload {
			s.Instances = append(s.Instances, w.instance(at, in))
		}
	}
	slices.SortFunc(s.Instances, func(a, b target.Instance) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	return s
}

func (w *world) instance(at slot, in *instance) target.Instance {
	found := target.Instance{Role: at.role, Ordinal: at.ordinal, Admission: target.AdmissionPending,
		Ready: in.pods && in.admitted && in.admittedAt+float64(w.Ready) <= w.now}
	if in.admitted {
		found.Admission = target.AdmissionGranted
	}
	if reading, any := w.readings[at.role]; any && reading.Ready != nil {
		found.Ready = at.ordinal < *reading.Ready
	}
	return found
}

// kindNamed is the kind of a role; a kind that the scaler does not know is the zero kind (D22).
func kindNamed(kind string) observe.RoleKind {
	switch k := observe.RoleKind(kind); k {
	case "":
		return observe.Server
	case observe.Server, observe.Prefill, observe.Decode, observe.Encode:
		return k
	}
	return ""
}
