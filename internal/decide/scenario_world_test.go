package decide

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// world is a target that follows commits: quota, cold start, retirement. It is as small as the scenarios need it.
type world struct {
	file       worldFile
	now        float64 // seconds
	uid        int
	generation int64
	gone       bool
	roles      []targetRole
	instances  map[slot]*instance
	retirement *target.Retirement
	notes      map[string]string // annotations
	readings   map[string]*reading
	last       map[string]observe.RoleObservation
	seen       map[string]float64
}

type slot struct {
	role    string
	ordinal int
}

type instance struct {
	asked          float64
	admitted       bool
	admittedAt     float64
	pods, workload bool
	goneAt         float64 // of a removed one; +Inf: an event ends it
}

func newWorld(s *scenario) *world {
	w := &world{file: s.World, notes: map[string]string{}, readings: map[string]*reading{}, seen: map[string]float64{},
		last: map[string]observe.RoleObservation{}}
	w.create(s.Target.Roles)
	return w
}

// create makes the target: all that it declares is there from the start.
func (w *world) create(roles []targetRole) {
	w.uid++
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

func (w *world) role(name string) *targetRole {
	for i := range w.roles {
		if w.roles[i].Name == name {
			return &w.roles[i]
		}
	}
	return nil
}

// resize writes counts as the API server would: one generation a write, instances follow.
func (w *world) resize(counts map[string]int32) {
	w.generation++
	for i := range w.roles {
		r := &w.roles[i]
		r.Replicas = counts[r.Name]
		w.follow(r)
	}
}

func (w *world) follow(r *targetRole) {
	for o := range int(r.Replicas) {
		in := w.instances[slot{r.Name, o}]
		if in == nil {
			in = &instance{asked: w.now}
			w.instances[slot{r.Name, o}] = in
		}
		in.pods, in.workload, in.goneAt = true, true, math.Inf(1)
	}
	for at, in := range w.instances {
		if at.role != r.Name || at.ordinal < int(r.Replicas) || !math.IsInf(in.goneAt, 1) {
			continue
		}
		if !in.admitted {
			delete(w.instances, at)
			continue
		}
		in.goneAt = w.now + float64(w.file.Retire)
	}
}

// advance lets time pass: what is due happens.
func (w *world) advance(now float64) {
	w.now = now
	for at, in := range w.instances {
		if in.goneAt <= now {
			delete(w.instances, at)
		}
	}
	for _, at := range w.waiting() {
		in := w.instances[at]
		if due := in.asked + float64(w.file.Admit); due <= now && w.room(at.role) {
			in.admitted, in.admittedAt = true, max(due, in.asked)
		}
	}
}

// waiting ordinals in the order in which they get room.
func (w *world) waiting() []slot {
	var found []slot
	for at, in := range w.instances {
		if !in.admitted && in.workload && math.IsInf(in.goneAt, 1) {
			found = append(found, at)
		}
	}
	place := func(s slot) int {
		return slices.IndexFunc(w.roles, func(r targetRole) bool { return r.Name == s.role })
	}
	slices.SortFunc(found, func(a, b slot) int {
		return cmp.Or(cmp.Compare(w.instances[a].asked, w.instances[b].asked), cmp.Compare(place(a), place(b)), cmp.Compare(a.ordinal, b.ordinal))
	})
	return found
}

func (w *world) room(role string) bool {
	pool := w.role(role).InstanceType
	size, limited := w.file.Pools[pool]
	if !limited {
		return true
	}
	for at, in := range w.instances {
		if r := w.role(at.role); r != nil && r.InstanceType == pool && in.admitted && in.workload {
			size--
		}
	}
	return size > 0
}

func (w *world) ready(in *instance) bool {
	return in.pods && in.admitted && in.admittedAt+float64(w.file.Ready) <= w.now
}

// apply plays one event on the world; those on the decider are the runner's.
func (w *world) apply(e event) error {
	for role, fields := range e.Observe {
		if w.readings[role] == nil {
			w.readings[role] = &reading{}
		}
		if err := strict(fields, w.readings[role]); err != nil {
			return err
		}
	}
	for _, name := range e.Admit {
		in, err := w.find(name)
		if err != nil {
			return err
		}
		in.admitted, in.admittedAt = true, w.now
	}
	for _, name := range e.Evict {
		in, err := w.find(name)
		if err != nil {
			return err
		}
		in.admitted, in.asked = false, math.Inf(1)
	}
	for _, name := range e.WorkloadGone {
		in, err := w.find(name)
		if err != nil {
			return err
		}
		in.workload = false
	}
	if e.Retirement != nil {
		w.retire(e.Retirement)
	}
	w.gone = w.gone || e.TargetDeleted
	if e.TargetRecreated != nil {
		w.create(e.TargetRecreated.Roles)
	}
	if e.Target != nil {
		return w.edit(e.Target)
	}
	return nil
}

// edit is somebody else's patch of the target.
func (w *world) edit(patch map[string]any) error {
	data, err := json.Marshal(targetFile{Roles: w.roles})
	if err != nil {
		return err
	}
	fields := map[string]any{}
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	merge(fields, patch)
	if data, err = json.Marshal(fields); err != nil {
		return err
	}
	var edited targetFile
	if err := strict(data, &edited); err != nil {
		return err
	}
	w.roles = edited.Roles
	w.generation++
	for i := range w.roles {
		w.follow(&w.roles[i])
	}
	return nil
}

func (w *world) find(name string) (*instance, error) {
	role, ordinal, err := splitOrdinal(name)
	if err != nil {
		return nil, err
	}
	if in := w.instances[slot{role, ordinal}]; in != nil {
		return in, nil
	}
	return nil, fmt.Errorf("no instance %s", name)
}

func (w *world) retire(f *retirementFile) {
	if f.State == "Finished" {
		w.retirement = nil
		if in := w.instances[slot{f.Role, f.Ordinal}]; in != nil {
			in.pods = false
		}
		return
	}
	generation := w.generation
	if f.Generation != nil {
		generation = *f.Generation
	}
	w.retirement = &target.Retirement{Role: f.Role, Ordinal: f.Ordinal, State: target.RetirementState(f.State), ObservedGeneration: generation}
}

// snapshot is the target as the decider sees it.
func (w *world) snapshot() *target.Snapshot {
	if w.gone {
		return nil
	}
	s := &target.Snapshot{Deployment: target.Deployment{
		Namespace: "default", Name: "llm", UID: fmt.Sprintf("target-%d", w.uid), Generation: w.generation,
		Annotations: maps.Clone(w.notes), Engine: "vLLM", Retirement: w.retirement,
	}}
	for _, r := range w.roles {
		s.Roles = append(s.Roles, target.Role{Name: r.Name, Kind: kindNamed(r.Kind), Replicas: r.Replicas, Size: max(1, r.Size),
			InstanceType: r.InstanceType})
	}
	for at, in := range w.instances {
		if !in.pods && !in.workload {
			continue
		}
		admission := target.AdmissionPending
		if in.admitted {
			admission = target.AdmissionGranted
		}
		ready := w.ready(in)
		if reading := w.readings[at.role]; reading != nil && reading.Ready != nil {
			ready = at.ordinal < *reading.Ready
		}
		s.Instances = append(s.Instances, target.Instance{Role: at.role, Ordinal: at.ordinal, Ready: ready, Admission: admission})
	}
	slices.SortFunc(s.Instances, func(a, b target.Instance) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	return s
}

func kindNamed(kind *string) observe.RoleKind {
	if kind == nil || *kind == "" {
		return observe.Server
	}
	switch k := observe.RoleKind(*kind); k {
	case observe.Server, observe.Prefill, observe.Decode, observe.Encode:
		return k
	}
	return ""
}

// observations are one pass over every role, of age zero; a role that is down keeps its last one.
func (w *world) observations(every float64) map[string]observe.RoleObservation {
	found := map[string]observe.RoleObservation{}
	snapshot := w.snapshot()
	for i := range w.roles {
		r := &w.roles[i]
		reading := w.readings[r.Name]
		if reading == nil || snapshot == nil {
			continue
		}
		if !reading.Down {
			w.last[r.Name] = w.observe(r, reading, snapshot, every)
			w.seen[r.Name] = w.now
		}
		if latest, any := w.last[r.Name]; any {
			latest.Age = time.Duration((w.now - w.seen[r.Name]) * float64(time.Second))
			found[r.Name] = latest
		}
	}
	return found
}

func (w *world) observe(r *targetRole, f *reading, s *target.Snapshot, every float64) observe.RoleObservation {
	ready := 0
	for _, in := range s.Instances {
		if in.Role == r.Name && in.Ready {
			ready++
		}
	}
	if f.Ready != nil {
		ready = *f.Ready
	}
	answered := ready
	if f.Answered != nil {
		answered = min(ready, *f.Answered)
	}
	span := every
	if before, any := w.seen[r.Name]; any {
		span = w.now - before
	}
	o := observe.RoleObservation{
		Key: observe.RoleKey{Namespace: "default", Deployment: "llm", UID: s.UID, Role: r.Name}, Kind: kindNamed(r.Kind),
		Engine: observe.VLLM, Sequence: w.last[r.Name].Sequence + 1,
		Interval: time.Duration(every * float64(time.Second)), Span: time.Duration(span * float64(time.Second)),
		Coverage: observe.Coverage{ReadyReplicas: ready, Targets: ready, Selected: ready, Answered: answered, Rated: answered},
		State:    observe.Missing,
	}
	if answered == 0 {
		return o
	}
	o.State = observe.Fresh
	o.Running, o.Waiting, o.KVCacheUsage = observe.Known(f.Running), observe.Known(f.Waiting), observe.Known(f.KV)
	o.TTFT, o.ITL = latencyOf(f.TTFT), latencyOf(f.ITL)
	if f.Rated != nil && !*f.Rated {
		o.Coverage.Rated = 0
		return o
	}
	o.Prompt, o.RawPrompt, o.Generation = observe.Known(f.Prompt), observe.Known(f.Prompt), observe.Known(f.Generation)
	return o
}

func latencyOf(ms *float64) observe.Latency {
	if ms == nil {
		return observe.Latency{}
	}
	return observe.Latency{Milliseconds: *ms, Source: observe.FromBucket, Count: 1}
}

// write plays a decision's writes on the target; the outcome is what the API server would answer.
func (w *world) write(d Decision, refused bool) Outcome {
	if d.Commit == nil && d.Bind == nil && !d.Release || refused || w.gone {
		return Outcome{}
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
	return Outcome{Written: true, Generation: w.generation}
}
