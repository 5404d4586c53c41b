package decide

import (
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// pass is what the checks and stages of one Plan work over: the input, the roles, and the decision as it grows.
type pass struct {
	in     Input
	now    time.Time
	spec   *workerv1.ModelDeploymentScalerSpec
	target *target.Snapshot
	state  State // the memory of the next pass; its slices are this pass's own
	roles  []*role
	bands  []band

	rebuilding bool        // one pass of many over what was replayed: histories and demands are its own too, and prolonged in place
	spare      []RoleState // then: the slice that the next memory is written into

	algorithm algorithm

	binding    *fence.Binding // on the target; nil when there is none or it cannot be read
	bindingErr error          // why it cannot be read
	term       int64          // to commit under

	conflict   *conflict // stops the planning of counts
	undecided  []string  // roles whose projection ended undecided
	recovery   recovery  // what undoes an earlier commit in this pass
	write      *Commit   // kind and consequences of this pass's commit; nil for ordinary growth or shrinking
	standstill obstacle  // why a refused growth is not helped by a transfer of capacity
	decision   Decision
}

// conflict is a policy that the current vector cannot be planned under.
type conflict struct {
	reason, message string
}

// role is one role of the target in this pass.
type role struct {
	target.Role
	bounds workerv1.RoleBounds
	known  *RoleState // of the previous pass; nil when the role is new
	next   RoleState
	demand Predictor // the demand windows of this pass

	ready    int32   // ready instances in the snapshot
	admitted []int32 // ordinals that are admitted now (D29), ascending
	observed observe.RoleObservation
	signal   observe.SignalState
	why      string // in people's words, why the signal is not what is needed; empty when it is
	fresh    bool   // the observation was not seen by an earlier pass

	recommendation
	count  int32  // after the stages so far
	wanted int32  // count after windows, steps and bounds, before the guards
	first  string // rule that changed the count first
	paced  bool   // a window, step or guard changed it
	floor  int32  // least count that windows, steps, bounds and guards leave when shrinking
	ceil   int32  // most that steps, bounds and guards leave when growing
	trace  []Step
}

// recommendation is what an algorithm says about a role.
type recommendation struct {
	raw    int32
	reason string
	// hold is the reason why nothing may shrink whatever raw says; empty when it may.
	hold string
	// blind: required signals are missing or stale, raw is the current count.
	blind bool
	// young: the windows that raw rests on are not known to be whole yet (D54). For the guards, which a rebuild does not run.
	young bool
	// partial: raw rests on incomplete coverage and justifies growth only (D3).
	partial bool
}

// newPass gathers the roles, notices an edit, and puts stored times right.
func newPass(in Input) *pass {
	p := &pass{in: in, now: in.Now, spec: &in.Scaler.Spec, target: in.Target, state: in.State}
	p.noticeEdit()
	p.clampTimes()
	p.state.Conditions = slices.Clone(p.state.Conditions) // the memory's slices become the pass's own
	p.gatherPolicy()
	p.gatherRoles()
	return p
}

// gatherPolicy reads what holds for all roles.
func (p *pass) gatherPolicy() {
	p.algorithm = algorithmOf(&p.spec.Algorithm)
	if p.target != nil {
		p.readBinding()
		p.bands = bandsOf(p.spec.Ratios)
	}
}

// gatherRoles collects what the checks and stages work over. A pass that is gathered once more uses its room again.
func (p *pass) gatherRoles() {
	if p.target == nil {
		return
	}
	n := len(p.target.Roles)
	if len(p.roles) != n {
		roles, steps := make([]role, n), make([]Step, n*mostSteps)
		p.roles = make([]*role, n)
		for i := range roles {
			p.roles[i] = &roles[i]
			p.roles[i].trace = steps[i*mostSteps : i*mostSteps : (i+1)*mostSteps]
		}
	}
	for i, r := range p.roles {
		*r = role{trace: r.trace[:0], admitted: r.admitted[:0]}
		r.fill(p, p.target.Roles[i])
	}
}

// noticeEdit ends an exhaustion episode when the spec was edited since the last report (D31).
func (p *pass) noticeEdit() {
	if seen := p.state.ObservedGeneration; seen != 0 && seen != p.in.Scaler.Generation {
		p.endEpisode()
	}
	p.state.ObservedGeneration = p.in.Scaler.Generation
}

// mostSteps is how many steps a role's trace can have.
const mostSteps = 10

// fill takes what the policy, the memory and the snapshot know of the role.
func (r *role) fill(p *pass, t target.Role) {
	r.Role, r.known, r.count = t, p.state.role(t.Name), t.Replicas
	for _, b := range p.spec.Roles {
		if b.Name == t.Name {
			r.bounds = b
		}
	}
	for i := range p.target.Instances {
		in := &p.target.Instances[i]
		if in.Role != t.Name {
			continue
		}
		if in.Ready {
			r.ready++
		}
		if in.Admission == target.AdmissionGranted {
			r.admitted = append(r.admitted, int32(min(in.Ordinal, math.MaxInt32)))
		}
	}
	slices.Sort(r.admitted)
	if r.known != nil {
		r.next = *r.known
	}
	r.demand.Name = t.Name
	if known := p.state.predictor(t.Name); known != nil {
		r.demand = *known
		r.demand.History = begun(known.History, p.interval())
	}
	r.next.Name, r.next.Current, r.next.Ready = t.Name, t.Replicas, r.ready
}

// role finds a role of the target; nil when there is none.
func (p *pass) role(name string) *role {
	for _, r := range p.roles {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// current is the vector on the target.
func (p *pass) current() workerv1.Vector {
	v := make(workerv1.Vector, len(p.roles))
	for _, r := range p.roles {
		v[r.Name] = r.Replicas
	}
	return v
}

// mode with the default of a spec that never went through admission.
func (p *pass) active() bool { return p.spec.Mode == workerv1.ModeActive }

func (p *pass) owns() bool { return p.binding != nil && p.binding.ScalerUID == p.in.Scaler.UID }

func (p *pass) interval() time.Duration {
	return seconds(p.spec.Sampling.IntervalSeconds, 15)
}

// seconds is a duration of the spec; zero is its default, as admission would have stored.
func seconds(value, byDefault int32) time.Duration {
	if value <= 0 {
		value = byDefault
	}
	return time.Duration(value) * time.Second
}

// stamp is a time as the status can keep it: whole seconds, rounded up, so that no guard ends early after a restart.
func stamp(t time.Time) metav1.Time {
	if whole := t.Truncate(time.Second); !whole.Equal(t) {
		t = whole.Add(time.Second)
	}
	return metav1.NewTime(t)
}

func (s State) role(name string) *RoleState {
	for i := range s.Roles {
		if s.Roles[i].Name == name {
			return &s.Roles[i]
		}
	}
	return nil
}

func (s State) predictor(name string) *Predictor {
	for i := range s.Predictors {
		if s.Predictors[i].Name == name {
			return &s.Predictors[i]
		}
	}
	return nil
}
