package decide

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

// maxMessage is the longest condition message in bytes (D45).
const maxMessage = 1024

// condition reports one condition of this pass. The transition time moves with the status alone.
func (p *pass) condition(kind string, holds bool, reason, message string) {
	status := metav1.ConditionFalse
	if holds {
		status = metav1.ConditionTrue
	}
	next := metav1.Condition{
		Type:               kind,
		Status:             status,
		ObservedGeneration: p.in.Scaler.Generation,
		LastTransitionTime: stamp(p.now),
		Reason:             reason,
		Message:            short(message),
	}
	for i := range p.state.Conditions {
		known := &p.state.Conditions[i]
		if known.Type != kind {
			continue
		}
		if known.Status == status {
			next.LastTransitionTime = known.LastTransitionTime
		}
		*known = next
		return
	}
	p.state.Conditions = append(p.state.Conditions, next)
}

// short is a message cut to what conditions and events may carry.
func short(message string) string {
	return strings.ToValidUTF8(message[:min(len(message), maxMessage)], "")
}

func findCondition(conditions []metav1.Condition, kind string) *metav1.Condition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

// conclude reports the pass: conditions, the roles' numbers and reasons, the trace, and the memory.
func (p *pass) conclude() {
	p.decision.Trace = make(map[string][]Step, len(p.roles))
	for _, r := range p.roles {
		r.next.Raw, r.next.Constrained, r.next.Reason = r.raw, r.count, r.finalReason()
		p.decision.Trace[r.Name] = r.trace
	}
	p.keepRoles()
	p.metricsReady()
	p.blockedBy()
	p.bound()
	p.decision.State = p.state
}

// bound reports Bound and Active. Before a first binding is written they stay as they were.
func (p *pass) bound() {
	name := p.target.Name
	switch {
	case !p.active() && p.binding != nil && !p.owns():
		p.condition(workerv1.ConditionBound, false, workerv1.ReasonAlreadyBound,
			fmt.Sprintf("ModelDeployment %s is bound by scaler %s", name, p.binding.ScalerName))
	case !p.active():
		p.condition(workerv1.ConditionBound, true, workerv1.ReasonBound, "the target is available to this scaler")
	case p.decision.Bind != nil:
		before := p.state.Conditions
		p.state.Conditions = append([]metav1.Condition(nil), before...)
		p.holdsBinding()
		p.decision.bound, p.state.Conditions = p.state.Conditions, before
		return
	default:
		p.holdsBinding()
		return
	}
	p.condition(workerv1.ConditionActive, false, workerv1.ReasonShadowMode, "spec.mode is Shadow: recommendations are not committed")
}

func (p *pass) holdsBinding() {
	p.condition(workerv1.ConditionBound, true, workerv1.ReasonBound, "this scaler holds the binding of its target")
	p.condition(workerv1.ConditionActive, true, workerv1.ReasonActive, "recommendations are committed")
}

// metricsReady reports whether every role that needs signals has complete and current ones, unless something stops the
// planning that would use them (D63).
func (p *pass) metricsReady() {
	kind := workerv1.ConditionMetricsReady
	switch {
	case p.recovery.stuck != "" && p.recovery.reason == workerv1.ReasonResourceExhausted:
		p.condition(kind, false, workerv1.ReasonResourceExhausted, p.recovery.stuck)
		return
	case p.conflict != nil:
		p.condition(kind, false, p.conflict.reason, p.conflict.message)
		return
	}
	var waiting []string
	for _, r := range p.roles {
		switch {
		case !p.algorithm.sizes(r):
		case !r.usable():
			waiting = append(waiting, fmt.Sprintf("role %s: %s", r.Name, r.why))
		case !p.covered(r):
			waiting = append(waiting, fmt.Sprintf("role %s: not every replica is in the readings", r.Name))
		}
	}
	if len(waiting) > 0 {
		p.condition(kind, false, workerv1.ReasonWaitingForMetrics, strings.Join(waiting, "; "))
		return
	}
	p.condition(kind, true, workerv1.ReasonObserved, "all required role signals are available")
}

// finalReason is the algorithm's reason, or the first constraint that changed its count; an algorithm's own hold keeps its
// name whatever acted first (D23).
func (r *role) finalReason() string {
	switch r.first {
	case "":
		return r.reason // nothing changed it
	case RuleRollback:
		return ReasonResourceExhausted
	case RuleRestore, workerv1.ReasonScaleDownAborted:
		return workerv1.ReasonScaleDownAborted
	}
	if r.count == r.raw || r.hold != "" && r.reason == r.hold {
		return r.reason
	}
	switch r.first {
	case RuleCohort, RuleExhausted, RuleSmallerRetry, workerv1.ReasonResourceExhausted:
		return ReasonResourceExhausted
	case RuleRatio, RuleUndecided:
		return ReasonRatioCoupled
	case workerv1.ReasonBoundsConflict, workerv1.ReasonRatioConflict:
		return r.first
	}
	return ReasonPacingBounded
}
