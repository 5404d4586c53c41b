package decide

import (
	"math"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/windows"
)

// stage narrows a role's count towards its current one (D23).
type stage struct {
	name string
	// most and least are the counts that the stage allows at all, with the rule that says so.
	most, least func(*pass, *role) (int32, string)
}

// stages of one role, in order; the ratio projection follows them.
var stages = []stage{
	{StageUpWindow, upWindow, nothingLeast},    // grow to the lowest recommendation of the window (D24)
	{StageDownWindow, nothingMost, downWindow}, // shrink to the highest recommendation of the window (D24)
	{StageStep, stepUp, stepDown},              // one pass moves one step (spec "Pacing and guards")
	{StageBounds, maxBound, minBound},          // minReplicas to maxReplicas
	{StageGuards, growthGuards, shrinkGuards},  // what forbids growing or shrinking altogether
}

// constrain takes every role through the stages. What is left of its ceiling and floor is the box that the projection may
// use; the up window does not limit how far a partner pulls a role (D64).
func (p *pass) constrain() {
	for _, r := range p.roles {
		r.ceil, r.floor = math.MaxInt32, 1
		for _, s := range stages {
			if s.name == StageGuards {
				r.wanted = r.count
			}
			most, upRule := s.most(p, r)
			least, downRule := s.least(p, r)
			r.narrow(s.name, most, upRule, least, downRule)
			if s.name != StageUpWindow {
				r.ceil = min(r.ceil, max(most, r.Replicas))
			}
			r.floor = max(r.floor, min(least, r.Replicas))
		}
	}
}

// narrow moves the count back to most or least, never past the current one, and notes which rule did.
func (r *role) narrow(stage string, most int32, upRule string, least int32, downRule string) {
	count, rule := r.count, ""
	if limit := max(most, r.Replicas); count > limit {
		count, rule = limit, upRule
	}
	if limit := min(least, r.Replicas); count < limit {
		count, rule = limit, downRule
	}
	r.moveTo(stage, count, rule)
	r.paced = r.paced || rule != "" && rule != RuleBounds
}

// moveTo is the count after a stage.
func (r *role) moveTo(stage string, count int32, rule string) {
	if count == r.count {
		rule = ""
	}
	if rule != "" && r.first == "" {
		r.first = rule
	}
	r.count = count
	r.step(stage, count, rule)
}

func (r *role) step(stage string, count int32, rule string) {
	r.trace = append(r.trace, Step{Stage: stage, Replicas: count, Rule: rule})
}

func nothingMost(*pass, *role) (int32, string)  { return math.MaxInt32, "" }
func nothingLeast(*pass, *role) (int32, string) { return math.MinInt32, "" }

func upWindow(p *pass, r *role) (int32, string) {
	window := seconds(p.spec.Behavior.ScaleUp.StabilizationWindowSeconds, 0)
	if window == 0 {
		return math.MaxInt32, ""
	}
	if !r.next.History.Spans(p.now, window, windows.MaxGap(p.interval())) {
		return r.Replicas, RuleHistoryShort
	}
	lowest, _ := r.next.History.Lowest(p.now, window)
	return lowest, RuleUpWindow
}

func downWindow(p *pass, r *role) (int32, string) {
	window := seconds(p.spec.Behavior.ScaleDown.StabilizationWindowSeconds, 300)
	if !r.next.History.Spans(p.now, window, windows.MaxGap(p.interval())) {
		return r.Replicas, RuleHistoryShort
	}
	highest, _ := r.next.History.Highest(p.now, window)
	return highest, RuleDownWindow
}

// Default steps (spec "Resource").
const (
	defaultUpReplicas = 4
	defaultUpPercent  = 100
	defaultDownStep   = 1
)

// stepUp is the most that one pass may leave: the larger of the two default bounds, or the policy alone.
func stepUp(p *pass, r *role) (int32, string) {
	up := p.spec.Behavior.ScaleUp
	if up.StepPolicy != nil {
		return saturated(int64(r.Replicas) + policyStep(up.StepPolicy, r.Replicas)), RuleStep
	}
	count, share := int64(up.MaxStepReplicas), up.MaxStepPercent
	if count <= 0 {
		count = defaultUpReplicas
	}
	if share <= 0 {
		share = defaultUpPercent
	}
	return saturated(int64(r.Replicas) + max(count, percent(share, r.Replicas))), RuleStep
}

// stepDown is the least that one pass may leave.
func stepDown(p *pass, r *role) (int32, string) {
	step := int64(defaultDownStep)
	if policy := p.spec.Behavior.ScaleDown.StepPolicy; policy != nil {
		step = policyStep(policy, r.Replicas)
	}
	return saturated(int64(r.Replicas) - step), RuleStep
}

func policyStep(policy *workerv1.StepPolicy, current int32) int64 {
	value := max(0, policy.Value)
	if policy.Type == workerv1.StepPercent {
		return percent(value, current)
	}
	return int64(value)
}

// percent of a count, rounded up, in integers (D42).
func percent(share, count int32) int64 {
	return (int64(max(0, count))*int64(share) + 99) / 100
}

func saturated(n int64) int32 {
	return int32(max(math.MinInt32, min(math.MaxInt32, n)))
}

func maxBound(_ *pass, r *role) (int32, string) { return r.bounds.MaxReplicas, RuleBounds }
func minBound(_ *pass, r *role) (int32, string) { return r.floorBound(), RuleBounds }
