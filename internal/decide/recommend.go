package decide

import (
	"math"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/windows"
)

// ceilingSlack forgives representation noise in front of a ceiling (D14).
const ceilingSlack = 1e-9

// algorithm is one of the spec's three ways to size a role.
type algorithm interface {
	// sizes says that the role has a target of its own; others follow a partner (D21).
	sizes(r *role) bool
	// remember takes a new observation into the role's windows.
	remember(p *pass, r *role)
	// demand is this pass's reading that sizes the role; missing when it is not known.
	demand(r *role) observe.Value
	// lacks says what is missing to size the role; empty when nothing is.
	lacks(p *pass, r *role) string
	// rates says that the demand is a rate, which needs two scrapes (D12).
	rates() bool
	// recommend sizes a role whose signals can be used. Holds and partial coverage are the caller's matter, except for the
	// algorithm's own.
	recommend(p *pass, r *role) recommendation
}

// algorithmOf is the algorithm that the spec selects. A type left out is inferred as admission does.
func algorithmOf(a *workerv1.Algorithm) algorithm {
	switch {
	case a.Type == workerv1.AlgorithmProportional || a.Type == "" && a.Proportional != nil:
		return newProportional(a.Proportional)
	case a.Type == workerv1.AlgorithmPredictive || a.Type == "" && a.Predictive != nil:
		return newPredictive(a.Predictive)
	case a.Type == workerv1.AlgorithmTokenThroughput || a.Type == "":
		return newTokenThroughput(a.TokenThroughput)
	}
	return unsupported{}
}

// recommend sizes every role: first those with a target of their own, then those that follow them. What goes into the history
// is the recommendation before any stage (D23), raised to the current count where it may not shrink anyway (D64).
func (p *pass) recommend() {
	for _, r := range p.roles {
		if p.algorithm.sizes(r) {
			r.recommendation = p.judge(r)
		}
	}
	for _, r := range p.roles {
		if !p.algorithm.sizes(r) {
			r.recommendation = p.follow(r)
		}
	}
	for _, r := range p.roles {
		r.count = r.raw
		r.step(StageRecommend, r.raw, r.reason)
		remembered := r.raw
		if r.hold != "" || r.blind || r.partial {
			remembered = max(r.raw, r.Replicas)
		}
		if p.rebuilding { // Rebuild thins them all at once
			r.next.History = append(r.next.History, windows.Recommendation{At: p.now, Replicas: remembered})
			continue
		}
		r.next.History = r.next.History.Add(p.now, remembered)
	}
}

// judge asks the algorithm, unless the signals cannot be used: then the count stays (D41).
func (p *pass) judge(r *role) recommendation {
	if !r.usable() {
		return recommendation{raw: r.Replicas, reason: r.reason, hold: r.reason, blind: true}
	}
	rec := p.algorithm.recommend(p, r)
	rec.partial = rec.partial || !p.covered(r)
	if rec.hold == "" && rec.raw < r.Replicas && queuesWithoutDemand(p.algorithm.demand(r), r.observed.Waiting) {
		rec.reason, rec.hold = ReasonWaitingWithoutDemand, ReasonWaitingWithoutDemand
	}
	return rec
}

// queuesWithoutDemand is work that waits while no demand is measured: engines report no demand exactly when they are
// overloaded, so this is not idle (D48).
func queuesWithoutDemand(demand, waiting observe.Value) bool {
	return demand.Valid && demand.Float64 == 0 && waiting.Valid && waiting.Float64 > 0
}

// replicas is the count that x asks for: its ceiling, at least 1 (D14), saturated (D42).
func replicas(x float64) int32 {
	whole := math.Ceil(x - ceilingSlack)
	switch {
	case !(whole > 1): // NaN too
		return 1
	case whole >= math.MaxInt32:
		return math.MaxInt32
	}
	return int32(whole)
}

// unsupported stands for an algorithm without parameters, or one that this program does not know: every role keeps its count.
type unsupported struct{}

func (unsupported) sizes(*role) bool           { return true }
func (unsupported) remember(*pass, *role)      {}
func (unsupported) demand(*role) observe.Value { return observe.Value{} }
func (unsupported) rates() bool                { return false }
func (unsupported) lacks(*pass, *role) string {
	return "spec.algorithm has no parameters that this version can plan with"
}
func (unsupported) recommend(_ *pass, r *role) recommendation {
	return recommendation{raw: r.Replicas, reason: ReasonWaitingForMetrics, hold: ReasonWaitingForMetrics, blind: true}
}
