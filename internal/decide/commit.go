package decide

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gpustack.ai/model-deployment-scaler/internal/fence"
)

// stay leaves every role at its current count.
func (p *pass) stay(stage, rule string) {
	for _, r := range p.roles {
		r.moveTo(stage, r.Replicas, rule)
	}
}

// growthFirst lets shrinking wait for a later pass when this one would grow anything (D26).
func (p *pass) growthFirst() {
	grows := false
	for _, r := range p.roles {
		grows = grows || r.count > r.Replicas
	}
	if !grows {
		return
	}
	for _, r := range p.roles {
		if r.count < r.Replicas {
			r.paced = true
			r.moveTo(StageDirection, r.Replicas, RuleGrowthFirst)
		}
	}
}

// commit writes the counts of an Active scaler when they differ from the current ones.
func (p *pass) commit() {
	if !p.active() || p.term == 0 {
		return
	}
	grows, moves := false, false
	for _, r := range p.roles {
		grows = grows || r.count > r.Replicas
		moves = moves || r.count != r.Replicas
	}
	if !moves {
		return
	}
	vector := make(map[string]int32, len(p.roles))
	for _, r := range p.roles {
		vector[r.Name] = r.count
	}
	c := p.write
	if c == nil {
		c = &Commit{Kind: fence.CommitDown}
		if grows {
			c.Kind = fence.CommitUp
		}
	}
	sequence := p.nextSequence()
	if sequence == 0 {
		return
	}
	id := fence.DecisionID{Epoch: p.in.Epoch.String(), Sequence: sequence, Kind: c.Kind}
	c.Decision = fence.Decision{DecisionID: id.String(), Term: p.term, Vector: vector}
	c.Baseline = p.current()
	c.Why = p.why(c)
	p.decision.Commit = c
}

// nextSequence is one more than the highest known; 0 when there is none left.
func (p *pass) nextSequence() int64 {
	highest := int64(0)
	if p.state.LastCommit != nil {
		highest = sequenceOf(p.state.LastCommit.DecisionID)
	}
	if last := p.last(); last != nil {
		highest = max(highest, sequenceOf(last.DecisionID))
	}
	if highest == math.MaxInt64 {
		return 0
	}
	return highest + 1
}

func sequenceOf(decisionID string) int64 {
	id, err := fence.ParseDecisionID(decisionID)
	if err != nil {
		return 0
	}
	return id.Sequence
}

// kindOf is the kind of a recorded decision; empty when it cannot be read.
func kindOf(decisionID string) fence.CommitKind {
	id, err := fence.ParseDecisionID(decisionID)
	if err != nil {
		return ""
	}
	return id.Kind
}

// why is the sentence of an event: what moves and what asked for it.
func (p *pass) why(c *Commit) string {
	var moved []string
	for _, r := range p.roles {
		if r.count == r.Replicas {
			continue
		}
		asked := fmt.Sprintf("%s recommends %d", r.reason, r.raw)
		if rule := r.decidedBy(); rule != "" {
			asked += ", " + rule + " decides"
		}
		moved = append(moved, fmt.Sprintf("%s from %d to %d (%s)", r.Name, r.Replicas, r.count, asked))
	}
	return short(fmt.Sprintf("%s: %s", c.Kind, strings.Join(moved, "; ")))
}

// decidedBy is the rule that brought the count to where it is; empty when the algorithm alone did. The role's reason names the
// first rule that acted instead (D23).
func (r *role) decidedBy() string {
	for _, s := range slices.Backward(r.trace) {
		if s.Rule != "" && s.Stage != StageRecommend {
			return s.Rule
		}
	}
	return ""
}

// keepRoles moves this pass's view of the roles into the memory.
func (p *pass) keepRoles() {
	roles, predictors := p.state.Roles, p.state.Predictors
	p.state.Roles, p.state.Predictors = p.spare, nil
	if len(p.spare) != len(p.roles) {
		p.state.Roles = make([]RoleState, len(p.roles))
	}
	if p.rebuilding {
		p.spare, p.state.Predictors = roles, predictors[:0]
	}
	for i, r := range p.roles {
		p.state.Roles[i] = r.next
		if len(r.demand.History) > 0 && p.algorithm.rates() {
			p.state.Predictors = append(p.state.Predictors, r.demand)
		}
	}
}
