package decide

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
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
