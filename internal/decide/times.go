package decide

import (
	"slices"
	"time"

	"gpustack.ai/model-deployment-scaler/internal/windows"
)

// longestBackoff ends the doubling of waits that repeat (D31).
const longestBackoff = 30 * time.Minute

// longestStableWindow of the token algorithms (spec "Token throughput"): a panic outlives its burst by one of them.
const longestStableWindow = 600 * time.Second

// backoff is base, doubled for every repeat after the first, up to half an hour (or base, if that is longer already).
func backoff(base time.Duration, repeats int32) time.Duration {
	wait := base
	for ; repeats > 1 && wait < longestBackoff; repeats-- {
		wait *= 2
	}
	return max(base, min(wait, longestBackoff))
}

// clampTimes distrusts stored times (D44): a start lies not after now, and no guard outlives its own length.
func (p *pass) clampTimes() {
	p.clampCohort()
	p.clampCooldown()
	p.clampExhaustion()
	p.state.Roles = slices.Clone(p.state.Roles)
	p.state.Predictors = slices.Clone(p.state.Predictors)
	for i := range p.state.Roles {
		r := &p.state.Roles[i]
		r.LastScaleUpTime = earlier(r.LastScaleUpTime, p.now)
		r.PanicUntil = earlier(r.PanicUntil, p.now.Add(longestStableWindow))
		r.History = trustedHistory(p.now, r.History)
	}
	for i := range p.state.Predictors {
		p.state.Predictors[i] = p.trustedPredictor(p.state.Predictors[i])
	}
}

func (p *pass) clampCohort() {
	c := p.state.PendingCohort
	if c == nil || !c.StartedAt.After(p.now) {
		return
	}
	clamped := *c
	clamped.StartedAt = stamp(p.now)
	p.state.PendingCohort = &clamped
}

func (p *pass) clampCooldown() {
	s := p.state.LastScaleDown
	if s == nil || s.CooldownUntil == nil {
		return
	}
	clamped := *s
	if s.AbortedAt == nil || s.AbortedAt.After(p.now) {
		start := stamp(p.now)
		clamped.AbortedAt = &start
	}
	if end := stamp(clamped.AbortedAt.Add(p.cooldown(s.ConsecutiveAborts))); s.CooldownUntil.After(end.Time) {
		clamped.CooldownUntil = &end
	}
	p.state.LastScaleDown = &clamped
}

func (p *pass) clampExhaustion() {
	e := p.state.Exhaustion
	if e == nil {
		return
	}
	longest := p.now.Add(backoff(p.pendingTimeout(), e.Attempts))
	if !e.BlockedUntil.After(longest) {
		return
	}
	clamped := *e
	clamped.BlockedUntil = stamp(longest)
	p.state.Exhaustion = &clamped
}

// cooldown after the given number of aborted removals of one role in a row.
func (p *pass) cooldown(aborts int32) time.Duration {
	return backoff(seconds(p.spec.Behavior.ScaleDown.CooldownAfterAbortSeconds, 300), aborts)
}

func (p *pass) pendingTimeout() time.Duration {
	return seconds(p.spec.Sampling.PendingTimeoutSeconds, 300)
}

// trustedHistory is h in order and without entries from the future.
func trustedHistory(now time.Time, h windows.History) windows.History {
	inOrder := slices.IsSortedFunc(h, func(a, b windows.Recommendation) int { return a.At.Compare(b.At) })
	if inOrder && (len(h) == 0 || !h[len(h)-1].At.After(now)) {
		return h
	}
	return windows.HistoryOf(now, slices.Clone(h))
}

// trustedPredictor is p; it starts anew, with what is credible of its history, when some of that lies in the future. The status
// does not store spans: one longer than a Pod's baseline lives (D7) was a gap.
func (p *pass) trustedPredictor(known Predictor) Predictor {
	longest := max(3*p.interval(), 300*time.Second)
	credible := func(r windows.Rate) bool { return !r.At.After(p.now) && r.Span <= longest }
	if !slices.ContainsFunc(known.History, func(r windows.Rate) bool { return !credible(r) }) {
		return known
	}
	var kept windows.Average
	for _, rate := range known.History {
		rate.Span = min(rate.Span, p.interval())
		if !rate.At.After(p.now) {
			kept = append(kept, rate)
		}
	}
	if len(kept) < len(known.History) {
		return Predictor{Name: known.Name, History: kept}
	}
	known.History = kept
	return known
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
