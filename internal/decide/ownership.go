package decide

import (
	"fmt"
	"math"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
)

// ownership asks whether this scaler may plan this target at all. The first check that says no ends the pass; conditions
// that it does not touch stay as they are (spec "Conditions").
var ownership = []func(*pass) (stop bool){
	scalerDeleted,   // gives its binding up and plans nothing (D46)
	targetNotFound,  // waits until the target appears
	suspended,       // gives its binding up and plans nothing (D62)
	invalidBinding,  // nobody can tell who owns the target
	targetReplaced,  // another target of the same name waits for a spec edit (D62)
	shadow,          // gives its binding up, and plans
	alreadyBound,    // another scaler owns the target
	bind,            // an Active scaler takes an unbound target, and plans (D35)
	ownWrites,       // the view is older than the last commit (D43)
	unknownDecision, // the last commit was made, but not recorded (D33)
}

func (p *pass) stoppedBy(checks []func(*pass) bool) bool {
	for _, stops := range checks {
		if stops(p) {
			p.decision.State = p.state
			return true
		}
	}
	return false
}

// hold ends the pass with a sentence.
func (p *pass) hold(format string, args ...any) bool {
	p.decision.Hold = fmt.Sprintf(format, args...)
	return true
}

// lost says on both conditions why the target is not this scaler's, and holds.
func (p *pass) lost(reason, format string, args ...any) bool {
	message := fmt.Sprintf(format, args...)
	p.condition(workerv1.ConditionBound, false, reason, message)
	p.condition(workerv1.ConditionActive, false, reason, message)
	return p.hold("%s", message)
}

func scalerDeleted(p *pass) bool {
	if !p.in.Scaler.Deleting {
		return false
	}
	p.decision.Release = p.owns()
	return p.hold("the scaler is being deleted")
}

func targetNotFound(p *pass) bool {
	name := p.in.Scaler.Namespace + "/" + p.spec.TargetRef.Name
	switch {
	case p.target == nil:
		return p.lost(workerv1.ReasonTargetNotFound, "ModelDeployment %s does not exist", name)
	case p.target.Deleting:
		return p.lost(workerv1.ReasonTargetNotFound, "ModelDeployment %s is being deleted", name)
	}
	return false
}

func suspended(p *pass) bool {
	if !p.spec.Suspend {
		return false
	}
	p.giveUp()
	return p.lost(workerv1.ReasonSuspended, "spec.suspend is true: nothing is planned and the target is not bound")
}

func invalidBinding(p *pass) bool {
	if p.bindingErr == nil {
		return false
	}
	return p.lost(workerv1.ReasonInvalidBinding, "annotation %s of ModelDeployment %s cannot be read (%.200s): fix or remove it",
		fence.BindingAnnotation, p.target.Name, p.bindingErr)
}

func targetReplaced(p *pass) bool {
	known := p.state.Binding.TargetUID
	if known == "" || known == p.target.UID {
		return false
	}
	bound := findCondition(p.state.Conditions, workerv1.ConditionBound)
	reported := bound != nil && bound.Reason == workerv1.ReasonTargetReplaced
	if reported && p.in.Scaler.Generation > bound.ObservedGeneration {
		p.forgetTarget()
		return false
	}
	return p.lost(workerv1.ReasonTargetReplaced,
		"ModelDeployment %s was deleted and created again: edit this scaler's spec to let it plan the new one", p.target.Name)
}

func shadow(p *pass) bool {
	if p.active() {
		return false
	}
	p.state.Binding.TargetUID, p.state.Binding.TargetName = p.target.UID, p.target.Name
	p.giveUp()
	return false
}

func alreadyBound(p *pass) bool {
	if !p.active() || p.binding == nil || p.owns() {
		return false
	}
	return p.lost(workerv1.ReasonAlreadyBound, "ModelDeployment %s is bound by scaler %s", p.target.Name, p.binding.ScalerName)
}

func bind(p *pass) bool {
	if !p.active() {
		return false
	}
	p.state.Binding.TargetUID, p.state.Binding.TargetName = p.target.UID, p.target.Name
	if p.owns() {
		p.term = p.binding.Term
		p.state.Binding.Term = p.term
		return false
	}
	p.forgetUnbound()
	highest := p.state.Binding.Term
	if last := p.last(); last != nil {
		highest = max(highest, last.Term)
	}
	if highest == math.MaxInt64 {
		return p.hold("no term is left: annotation %s of ModelDeployment %s holds the highest one", fence.DecisionAnnotation, p.target.Name)
	}
	p.term = highest + 1
	p.decision.Bind = &fence.Binding{ScalerName: p.in.Scaler.Name, ScalerUID: p.in.Scaler.UID, Term: p.term}
	return false
}

func ownWrites(p *pass) bool {
	last := p.state.LastCommit
	if !p.owns() || last == nil || p.target.Generation >= last.TargetGeneration {
		return false
	}
	if !p.in.Live {
		p.decision.Reread = true
		return p.hold("generation %d of the target, which the last commit made, is not in view yet", last.TargetGeneration)
	}
	// A live read below our own write: the cluster was restored from a backup. What it shows is what there is.
	corrected := *last
	corrected.TargetGeneration = p.target.Generation
	p.state.LastCommit = &corrected
	return false
}

func unknownDecision(p *pass) bool {
	known := p.state.LastCommit
	if !p.owns() || known != nil && p.shows(known.DecisionID) {
		return false
	}
	found := p.last()
	if found == nil || found.Term != p.binding.Term || known != nil && known.DecisionID == found.DecisionID {
		return false
	}
	if !p.in.Live {
		p.decision.Reread = true
		return p.hold("decision %s on the target is not known yet", found.DecisionID)
	}
	p.adopt(*found)
	return p.hold("decision %s was found on the target and taken over; planning goes on with the next pass", found.DecisionID)
}
