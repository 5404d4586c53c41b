package decide

import (
	"strings"

	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/windows"
)

// giveUp asks for the release of an own binding. Records of a binding that is gone already are dropped at once.
func (p *pass) giveUp() {
	p.decision.Release = p.owns()
	if !p.decision.Release {
		p.forgetUnbound()
	}
}

// forgetUnbound drops what only the owner of a binding may finish (D62).
func (p *pass) forgetUnbound() { p.state = p.state.released() }

// forgetTarget drops everything that belongs to another target (D62); the term and the last commit's sequence are kept.
func (p *pass) forgetTarget() {
	s := &p.state
	s.PendingCohort, s.LastScaleDown, s.Rebalance, s.Exhaustion, s.Predictors, s.Roles = nil, nil, nil, nil, nil, nil
	if s.LastCommit != nil {
		last := *s.LastCommit
		last.TargetGeneration = 0
		s.LastCommit = &last
	}
	s.Binding = Binding{Term: s.Binding.Term}
	for _, r := range p.roles {
		r.known, r.demand = nil, Predictor{Name: r.Name}
		r.next = RoleState{Name: r.Name, Current: r.Replicas, Ready: r.ready, History: windows.History{}}
	}
}

// readBinding reads who owns the target. An unreadable binding stops planning; an unreadable decision is as good as none, the
// next commit replaces it.
func (p *pass) readBinding() {
	if value, there := p.target.Annotations[fence.BindingAnnotation]; there {
		own := fence.Binding{ScalerName: p.in.Scaler.Name, ScalerUID: p.in.Scaler.UID, Term: p.state.Binding.Term}
		if own.Term > 0 && value == own.String() { // as in nearly every pass: comparing is cheaper than parsing
			p.binding = &own
			return
		}
		binding, err := fence.ParseBinding(value)
		if p.bindingErr = err; err == nil {
			p.binding = &binding
		}
	}
}

// last is the latest decision on the target; nil when there is none or it cannot be read.
func (p *pass) last() *fence.Decision {
	value, there := p.target.Annotations[fence.DecisionAnnotation]
	if !there {
		return nil
	}
	decision, err := fence.ParseDecision(value)
	if err != nil {
		return nil
	}
	return &decision
}

// shows says that the latest decision on the target is the one with this identity, without reading all of it.
func (p *pass) shows(decisionID string) bool {
	return strings.Contains(p.target.Annotations[fence.DecisionAnnotation], `"decisionID":"`+decisionID+`"`)
}
