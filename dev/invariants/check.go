package invariants

import (
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// Report is what a check looked at.
type Report struct {
	Versions, Commits int
	Leaders           int // epochs that committed
	Cohorts           int // growth that followed growth which was not taken back
	Floors            int // removals that were held against what was observed before them
	// Violations are everything that is wrong, in no order.
	Violations []error
}

// Check holds all versions so far against what must be true. Limits are those of the target of that name.
func (h *History) Check(limits func(name string) Limits) (r Report) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, err := range h.wrong {
		r.Violations = append(r.Violations, err)
	}
	epochs := make(map[string]bool)
	for _, l := range h.targets.lines {
		versions := make([]target.Deployment, 0, len(l))
		for _, v := range l {
			versions = append(versions, v.object)
		}
		commits, err := Orderly(versions, limits(versions[0].Name))
		r.add(err)
		r.Versions += len(versions)
		r.Commits += len(commits)
		var last growth
		for i, c := range commits {
			epochs[c.Epoch] = true
			r.add(h.leads(l[c.Version], c))
			if i > 0 {
				r.add(h.once(l[commits[i-1].Version], l[c.Version], commits[i-1], c))
			}
			if c.Kind == fence.CommitUp && last.term == c.Term {
				r.Cohorts++
				r.add(h.admitted(last, l[c.Version-1].object, l[c.Version], c))
			}
			if c.Kind == fence.CommitDown || c.Kind == fence.CommitDonate {
				r.add(h.seen(l[c.Version-1].object, l[c.Version], c))
			}
			if c.Kind == fence.CommitDown {
				r.add(h.waited(&r, l[c.Version-1].object, l[c.Version], c))
			}
			last = last.after(l[c.Version], c)
		}
	}
	r.Leaders = len(epochs)
	return r
}

func (r *Report) add(err error) {
	if err != nil {
		r.Violations = append(r.Violations, err)
	}
}

// leads checks that the decider of a commit held the Lease when it was stored (D52).
func (h *History) leads(v version[target.Deployment], c Commit) error {
	var lease *coordinationv1.Lease
	var newest uint64
	for _, l := range h.leases.lines {
		if held, at := l.before(v.number); at > newest {
			lease, newest = held, at
		}
	}
	if lease == nil || h.leases.missing(newest, v.number) {
		return nil
	}
	epoch := fence.Epoch{LeaseUID: string(lease.UID)}
	if lease.Spec.LeaseTransitions != nil {
		epoch.Transitions = int64(*lease.Spec.LeaseTransitions)
	}
	if c.Epoch != epoch.String() || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return fmt.Errorf("version %d of %s: decision %s was stored when epoch %s led (held by %v)", v.number, v.object.Name, c.DecisionID, epoch, lease.Spec.HolderIdentity)
	}
	return nil
}

// once checks that no two commits are of one plan: a decision counts on from the one before, and was written only after the
// scaler's status held that (D33).
func (h *History) once(earlier, v version[target.Deployment], before, c Commit) error {
	status, at := h.status(v)
	if before.Term != c.Term || status == nil || h.scalers.missing(at, v.number) || h.targets.missing(earlier.number, v.number) {
		return nil
	}
	var err error
	if c.Sequence != before.Sequence+1 {
		err = fmt.Errorf("version %d of %s: decision %s does not count on from %s", v.number, v.object.Name, c.DecisionID, before.DecisionID)
	}
	if status.LastCommit == nil || status.LastCommit.DecisionID != before.String() {
		err = errors.Join(err, fmt.Errorf("version %d of %s: decision %s was written before the status held %s (it held %v)",
			v.number, v.object.Name, c.DecisionID, before.DecisionID, status.LastCommit))
	}
	return err
}

// growth is the latest commit that raised counts and was not taken back; without a term there is none.
type growth struct {
	term   int64
	vector workerv1.Vector
	stored time.Time
}

func (g growth) after(v version[target.Deployment], c Commit) growth {
	switch c.Kind {
	case fence.CommitUp, fence.CommitAcquire:
		return growth{c.Term, Vector(v.object), v.seen}
	case fence.CommitRollback:
		return growth{}
	}
	return g
}

// admitted checks that nothing grew past growth that had no quota since it was stored, whatever a status says. What was removed
// since is not asked for.
func (h *History) admitted(g growth, before target.Deployment, v version[target.Deployment], c Commit) error {
	left := Vector(before)
	for role, count := range left {
		left[role] = min(count, g.vector[role])
	}
	if h.sources.Admitted(v.object.Name, left, g.stored, v.seen) {
		return nil
	}
	return fmt.Errorf("version %d of %s: decision %s grew past %v, which was not admitted", v.number, v.object.Name, c.DecisionID, left)
}

// seen checks that no role lost a replica while it could not be observed in full (spec "Role observations": incomplete coverage
// prevents scale-down).
func (h *History) seen(before target.Deployment, v version[target.Deployment], c Commit) (err error) {
	now := Vector(v.object)
	for role, count := range Vector(before) {
		if now[role] < count && h.sources.Blind(v.object.Name, role, v.seen) {
			err = errors.Join(err, fmt.Errorf("version %d of %s: decision %s leads role %s from %d to %d, and not all of it could be observed",
				v.number, v.object.Name, c.DecisionID, role, count, now[role]))
		}
	}
	return err
}

// waited checks that no role went below what was asked for within its scale-down window (spec "Pacing and guards"), under whatever
// leader that was.
func (h *History) waited(r *Report, before target.Deployment, v version[target.Deployment], c Commit) (err error) {
	now := Vector(v.object)
	for role, count := range Vector(before) {
		if now[role] == count {
			continue
		}
		floor, known := h.sources.Floor(v.object.Name, role, c.String(), v.seen)
		if !known {
			continue
		}
		r.Floors++
		if now[role] < floor {
			err = errors.Join(err, fmt.Errorf("version %d of %s: decision %s leads role %s to %d, and %d were asked for within its scale-down window",
				v.number, v.object.Name, c.DecisionID, role, now[role], floor))
		}
	}
	return err
}

// status of the owner of a target's version, as it was stored then.
func (h *History) status(v version[target.Deployment]) (*workerv1.ModelDeploymentScalerStatus, uint64) {
	binding, err := fence.ParseBinding(v.object.Annotations[fence.BindingAnnotation])
	if err != nil {
		return nil, 0
	}
	scaler, at := h.scalers.lines[binding.ScalerUID].before(v.number)
	if scaler == nil {
		return nil, 0
	}
	return &scaler.Status, at
}
