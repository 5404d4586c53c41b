package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/internal/decide"
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// plan is what one pass made of a role, as far as it is looked at.
type plan struct {
	subject
	leader    string
	at, heard time.Time
	shard     string
	target    string    // UID of the target that was observed; empty when nothing was
	made      time.Time // end of the observation; zero when there was none
	signal    string
	decision  string // written in this pass; empty when nothing was
	asks      int32  // replicas that the observation asks for by the policy, whatever the plan says
	whole     bool   // planned on current readings and on windows that are whole
}

func planOf(leader string, o *observationv1.ScalerObservation, heard time.Time) plan {
	p := plan{
		subject: subject{o.GetScaler(), o.GetRole()}, leader: leader, at: o.GetPlanTime().AsTime(), heard: heard, shard: o.GetShard(),
		signal: o.GetPlan().GetSignalState(), decision: o.GetPlan().GetDecisionId(), asks: asks(o), whole: whole(o),
	}
	if seen := o.GetObservation(); seen != nil {
		p.target, p.made = seen.GetKey().GetDeploymentUid(), seen.GetEndTime().AsTime()
	}
	return p
}

// whole says whether a role was planned on full windows. Rules show only where they act, so the scaler that always wants
// to shrink must want to.
func whole(o *observationv1.ScalerObservation) bool {
	plan := o.GetPlan()
	current := plan.GetSignalState() == string(observe.Fresh) || plan.GetSignalState() == string(observe.Idle)
	short := slices.ContainsFunc(plan.GetTrace(), func(s *observationv1.PlanStep) bool {
		return s.GetRule() == decide.RuleHistoryShort || s.GetRule() == decide.RuleYoungWindows
	})
	wants := o.GetScaler() != probe || plan.GetRawRecommendedReplicas() < plan.GetCurrentReplicas()
	return o.GetHold() == "" && current && !short && wants
}

// asks computes anew what an observation asks for: its queue over what a replica should carry, held within the tolerance
// (D15), and never less than there is when not everything was seen (D3, D64).
func asks(o *observationv1.ScalerObservation) int32 {
	seen, current := o.GetObservation(), o.GetPlan().GetCurrentReplicas()
	if seen == nil || seen.RunningRequests == nil || seen.WaitingRequests == nil || seen.GetCoverage().GetReadyReplicas() == 0 {
		return current
	}
	const perReplica, tolerance = 8, 0.1
	queue := seen.GetRunningRequests() + seen.GetWaitingRequests()
	count := int32(min(math.MaxInt32, max(1, math.Ceil(queue/perReplica))))
	if load := queue / float64(seen.GetCoverage().GetReadyReplicas()) / perReplica; math.Abs(load-1) <= tolerance {
		count = current
	}
	if seen.GetCoverage().GetAnswered() < seen.GetCoverage().GetTargets() {
		count = max(count, current)
	}
	return count
}

// ledAgain is when a leader other than the given one had planned every role on full windows, after a time.
func (s *witness) ledAgain(after time.Time, not string) (time.Time, bool) {
	planned := make(map[string]map[subject]bool)
	for _, p := range s.since(after) {
		if !p.whole || p.leader == not {
			continue
		}
		if planned[p.leader] == nil {
			planned[p.leader] = make(map[subject]bool)
		}
		planned[p.leader][p.subject] = true
		if len(planned[p.leader]) == len(subjects) {
			return p.heard, true
		}
	}
	return time.Time{}, false
}

// seenAgain is when the last of some roles was planned on an observation that was made after a time.
func (s *witness) seenAgain(after time.Time, roles []subject) (time.Time, bool) {
	left := slices.Clone(roles)
	for _, p := range s.since(after) {
		if p.made.After(after) {
			left = slices.DeleteFunc(left, func(r subject) bool { return r == p.subject })
		}
		if len(left) == 0 {
			return p.heard, true
		}
	}
	return time.Time{}, false
}

// latest plan of each role, of those that were heard lately.
func (s *witness) latest() map[subject]plan {
	latest := make(map[subject]plan)
	for _, p := range s.since(time.Now().Add(-recent)) {
		latest[p.subject] = p
	}
	return latest
}

// current says which roles were not planned on current readings in every pass since a time.
func (s *witness) current(since time.Time) (err error) {
	for _, p := range s.since(since) {
		if p.signal != string(observe.Fresh) && p.signal != string(observe.Idle) {
			err = errors.Join(err, fmt.Errorf("%w: role %s of scaler %s was %s at %s", errBroken, p.role, p.scaler, p.signal, p.at.Format(time.TimeOnly)))
		}
	}
	return err
}

// recent is what a role of 5 s interval is planned within.
const recent = 15 * time.Second

// whole says whether every role was planned on full windows lately.
func (s *witness) whole() bool {
	latest := s.latest()
	return !slices.ContainsFunc(subjects, func(r subject) bool { return !latest[r].whole })
}

// of a shard are the roles that it observes.
func (s *witness) of(shard string) (roles []subject) {
	for r, p := range s.latest() {
		if p.shard == shard {
			roles = append(roles, r)
		}
	}
	return roles
}

// floor is the highest count that was asked for within the scale-down window before a decision, which was stored at a time: no
// lower one is allowed, under whatever leader. It is not known of roles that follow others or are sized by rates, nor of
// decisions that nobody told of.
func (s *witness) floor(name, role, decision string, stored time.Time) (count int32, known bool) {
	window, known := queued[subject{name, role}]
	if !known {
		return 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var by plan
	for _, p := range s.plans {
		if p.subject == (subject{name, role}) && p.decision == decision && p.at.Before(stored) {
			by = p
		}
	}
	known = false
	for _, p := range s.plans {
		inside := !p.at.After(by.at) && p.made.After(by.at.Add(looseness-window))
		if p.subject == by.subject && p.target == by.target && inside {
			count, known = max(count, p.asks), true
		}
	}
	return count, known
}
