package decide

import (
	"math"
	"slices"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

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
