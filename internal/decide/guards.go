package decide

import (
	"math"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// growthLimits are the guards of growth, in the order in which they name themselves: the most that each allows.
var growthLimits = []func(*pass, *role) (int32, string){
	exhausted,      // the cluster had no room for the role (D31)
	cohortPending,  // a growth of the target is not admitted yet
	replicaPending, // a replica of the role is not admitted (D29)
	smallerRetry,   // a later retry asks for half of what was refused (D31)
}

// shrinkGuard says that a role may not shrink, and by which rule.
type shrinkGuard struct {
	rule   string
	forbid func(*pass, *role) bool
}

// shrinkForbidden are the guards of shrinking (spec "Pacing and guards"), in the order in which they name themselves.
var shrinkForbidden = []shrinkGuard{
	{RuleNotReady, noReadyReplica},      // nobody would serve
	{RuleAlgorithmHold, algorithmHolds}, // panic, latency, missing signals, a queue without demand
	{RuleCoverage, coverageIncomplete},  // a partial sum is a lower bound (D3)
	{RuleYoungWindows, windowsYoung},    // the demand windows are not known to be whole yet (D54)
	{RuleRetirement, removalRuns},       // one removal at a time, anywhere in the target (D32)
	{RuleCooldown, cooldownRuns},        // a removal was aborted not long ago
	{RuleDecodeGrace, decodeGraceRuns},  // a Decode role has just grown
	{RuleOwnCohort, cohortOfRole},       // the role's own growth is still pending
}

func growthGuards(p *pass, r *role) (int32, string) {
	most, rule := int32(math.MaxInt32), ""
	for _, limit := range growthLimits {
		if allowed, by := limit(p, r); allowed < most {
			most, rule = allowed, by
		}
	}
	return most, rule
}

func shrinkGuards(p *pass, r *role) (int32, string) {
	for _, g := range shrinkForbidden {
		if g.forbid(p, r) {
			return r.Replicas, g.rule
		}
	}
	return math.MinInt32, ""
}

func exhausted(p *pass, r *role) (int32, string) {
	if p.blocked(r) {
		return r.Replicas, RuleExhausted
	}
	return math.MaxInt32, ""
}

func cohortPending(p *pass, r *role) (int32, string) {
	if p.state.PendingCohort != nil {
		return r.Replicas, RuleCohort
	}
	return math.MaxInt32, ""
}

func replicaPending(p *pass, r *role) (int32, string) {
	if r.firstPending(0, r.Replicas) >= 0 {
		return r.Replicas, RuleUnadmitted
	}
	return math.MaxInt32, ""
}

func smallerRetry(p *pass, r *role) (int32, string) {
	e := p.state.Exhaustion
	if e == nil || e.Attempts < 2 || e.Increment[r.Name] <= 0 {
		return math.MaxInt32, ""
	}
	half := (int64(e.Increment[r.Name]) + 1) / 2
	return saturated(int64(r.Replicas) + half), RuleSmallerRetry
}

func noReadyReplica(_ *pass, r *role) bool { return r.ready == 0 }

func algorithmHolds(_ *pass, r *role) bool { return r.hold != "" }

func coverageIncomplete(_ *pass, r *role) bool { return r.partial }

func windowsYoung(_ *pass, r *role) bool { return r.young }

func removalRuns(p *pass, _ *role) bool {
	if p.target.Retirement.Running() {
		return true
	}
	for i := range p.target.Instances {
		in := &p.target.Instances[i]
		if r := p.role(in.Role); r != nil && in.Ordinal >= int(r.Replicas) {
			return true
		}
	}
	return false
}

func cooldownRuns(p *pass, _ *role) bool {
	s := p.state.LastScaleDown
	return s != nil && s.CooldownUntil != nil && p.now.Before(s.CooldownUntil.Time)
}

func decodeGraceRuns(p *pass, r *role) bool {
	if r.Kind != observe.Decode || r.next.LastScaleUpTime.IsZero() {
		return false
	}
	grace := seconds(p.spec.Behavior.ScaleDown.DecodePostScaleUpGraceSeconds, 120)
	return p.now.Before(r.next.LastScaleUpTime.Add(grace))
}

func cohortOfRole(p *pass, r *role) bool {
	c := p.state.PendingCohort
	return c != nil && c.TargetVector[r.Name] > c.BaselineVector[r.Name]
}

// blocked says that the role may not grow because the cluster had no room for it not long ago (D31).
func (p *pass) blocked(r *role) bool {
	e := p.state.Exhaustion
	return e != nil && isExhausted(e, r.Name) && p.now.Before(e.BlockedUntil.Time)
}

func isExhausted(e *workerv1.ExhaustionStatus, role string) bool {
	for _, name := range e.Roles {
		if name == role {
			return true
		}
	}
	return false
}

// firstPending is the lowest ordinal of a range that is not admitted now; -1 when all are (D29).
func (r *role) firstPending(from, to int32) int32 {
	for _, ordinal := range r.admitted {
		if ordinal == from {
			from++
		}
	}
	if from < to {
		return from
	}
	return -1
}
