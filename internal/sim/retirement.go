package sim

import (
	"time"

	"gpustack.ai/model-deployment-scaler/internal/target"
)

// retirementBudget is what a retirement may take in all, as its record announces.
const retirementBudget = 300 * time.Second

// Retirement is the record of the one removal that a deployment has at a time.
type Retirement struct {
	// ID of the instance that is removed.
	ID      int
	Role    string
	Ordinal int
	State   target.RetirementState
	// Generation of the deployment when it was admitted.
	Generation                        int64
	Reason                            string
	Started, PhaseStarted, DeadlineAt time.Time
	since                             float64
}

// Retirement of a deployment; nil when none is on record.
func (w *World) Retirement(key Key) *Retirement {
	d := w.find(key)
	if d == nil || d.retirement == nil {
		return nil
	}
	r := *d.retirement
	return &r
}

// Abort ends the retirement under way, if it can still be ended, and says whether it did. The record stays until the
// ordinal is wanted again, and nothing else is removed until then.
func (w *World) Abort(key Key, reason string) bool {
	d := w.find(key)
	if d == nil || d.retirement == nil {
		return false
	}
	switch d.retirement.State {
	case target.RetirementAdmitted, target.RetirementDisqualified, target.RetirementWithdrawing, target.RetirementDraining:
		w.enter(d.retirement, target.RetirementAborted, reason)
		d.retirement.DeadlineAt = w.Now()
		return true
	}
	return false
}

// retire moves the retirement of a deployment one step on when its time has come, or begins one.
func (w *World) retire(d *deployment) {
	if d.retirement == nil {
		w.beginRetirement(d)
		return
	}
	_, i := w.instance(d.key, d.retirement.ID)
	if i == nil { // taken from outside
		d.retirement = nil
		return
	}
	w.advance(d, d.retirement, i)
}

// beginRetirement picks the surplus instance with the highest ordinal of the first role that has one.
func (w *World) beginRetirement(d *deployment) {
	var pick *instance
	for _, i := range d.instances {
		if d.wants(i) || i.state == Pending || pick != nil && pick.role.Name != i.role.Name {
			continue
		}
		pick = i // instances are sorted: the last one of the role has the highest ordinal
	}
	if pick == nil {
		return
	}
	d.retirement = &Retirement{
		ID: pick.id, Role: pick.role.Name, Ordinal: pick.ordinal, Generation: d.spec.Generation,
		Started: w.Now(), DeadlineAt: w.Now().Add(retirementBudget),
	}
	w.enter(d.retirement, target.RetirementAdmitted, "the ordinal is no longer declared")
}

func (w *World) enter(r *Retirement, s target.RetirementState, reason string) {
	r.State, r.Reason, r.since = s, reason, w.now
	r.PhaseStarted = w.Now()
}

// advance is the protocol: Admitted, Disqualified, Withdrawing, Draining, Deleting, Settling, gone.
func (w *World) advance(d *deployment, r *Retirement, i *instance) {
	if r.State == target.RetirementAborted {
		w.adopt(d, i)
		return
	}
	in := w.now - r.since
	if in < w.o.RetirementStep.Seconds()-1e-9 {
		return
	}
	switch r.State {
	case target.RetirementAdmitted:
		i.eligible = false
		w.enter(r, target.RetirementDisqualified, "no new requests are routed to it")
	case target.RetirementDisqualified:
		w.enter(r, target.RetirementWithdrawing, "routers let go of it")
	case target.RetirementWithdrawing:
		w.enter(r, target.RetirementDraining, "its requests are finishing")
	case target.RetirementDraining:
		w.drain(d, r, i, in)
	case target.RetirementDeleting:
		if pods, _ := w.gone(i); pods {
			i.enter(Settling, w.now)
			w.enter(r, target.RetirementSettling, "its quota is being given back")
		}
	case target.RetirementSettling:
		if _, workload := w.gone(i); workload {
			w.drop(d, i)
			w.shape(d) // the ordinal may be wanted again by now
		}
	}
}

// drain goes on to deletion when no request is left, and gives up at the limit.
func (w *World) drain(d *deployment, r *Retirement, i *instance, in float64) {
	if i.engine != nil && i.engine.Load() > 0 {
		if limit := w.o.DrainLimit; limit > 0 && in >= limit.Seconds() {
			w.Abort(d.key, "its requests did not finish in time")
		}
		return
	}
	w.kill(d, i)
	i.enter(Deleting, w.now)
	w.enter(r, target.RetirementDeleting, "its Pods are being deleted")
}

// adopt takes an aborted retirement back when its ordinal is declared again.
func (w *World) adopt(d *deployment, i *instance) {
	if d.wants(i) {
		i.eligible = i.engine != nil
		d.retirement = nil
	}
}

func (w *World) gone(i *instance) (pods, workload bool) {
	if w.o.Gone == nil {
		return true, true
	}
	return w.o.Gone(i.id)
}
