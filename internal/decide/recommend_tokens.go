package decide

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/windows"
)

// Defaults of TokenThroughput (spec "Token throughput").
const (
	defaultStableSeconds  = 180
	defaultPanicSeconds   = 60
	defaultPanicThreshold = 2
	defaultTTFT           = 500 // milliseconds
	defaultITL            = 50  // milliseconds
)

// comparisonSlack is the relative slack of comparisons that representation noise must not decide (D16, D18, D20).
const comparisonSlack = 1e-9

// tokenThroughput divides the average demand of two windows by the capacity of one replica (spec "Token throughput").
type tokenThroughput struct {
	capacities           capacities
	stable, panic        time.Duration
	threshold, ttft, itl float64
}

// capacities are tokens per second that one replica serves, by kind; 0 where there is none.
type capacities struct {
	server, prefill, decode float64
}

func (c capacities) of(kind observe.RoleKind) float64 {
	switch kind {
	case observe.Server:
		return c.server
	case observe.Prefill:
		return c.prefill
	case observe.Decode:
		return c.decode
	}
	return 0
}

func newTokenThroughput(spec *workerv1.TokenThroughput) algorithm {
	if spec == nil {
		return unsupported{}
	}
	return tokensOf(spec)
}

func tokensOf(spec *workerv1.TokenThroughput) tokenThroughput {
	return tokenThroughput{
		capacities: capacities{
			server:  positive(spec.ServerTargetTokensPerSecond, 0),
			prefill: positive(spec.PrefillTargetTokensPerSecond, 0),
			decode:  positive(spec.DecodeTargetTokensPerSecond, 0),
		},
		stable:    seconds(spec.StableWindowSeconds, defaultStableSeconds),
		panic:     seconds(spec.PanicWindowSeconds, defaultPanicSeconds),
		threshold: positive(spec.PanicThreshold, defaultPanicThreshold),
		ttft:      positive(spec.TTFTTargetMilliseconds, defaultTTFT),
		itl:       positive(spec.ITLTargetMilliseconds, defaultITL),
	}
}

// positive is a quantity of the spec; what is left out or not positive is the default.
func positive(q *resource.Quantity, byDefault float64) float64 {
	if q == nil || q.Sign() <= 0 {
		return byDefault
	}
	return q.AsApproximateFloat64()
}

// sizes every kind but Encode, which has no tokens to count (D21).
func (a tokenThroughput) sizes(r *role) bool { return r.Kind != observe.Encode }

func (a tokenThroughput) rates() bool { return true }

func (a tokenThroughput) demand(r *role) observe.Value {
	switch r.Kind {
	case observe.Server:
		return r.observed.Prompt.Plus(r.observed.Generation)
	case observe.Prefill:
		return r.observed.Prompt
	case observe.Decode:
		return r.observed.Generation
	}
	return observe.Value{}
}

// remember adds the pass's rate to the role's demand. A pass without a rate leaves a gap, not a zero (D13).
func (a tokenThroughput) remember(p *pass, r *role) {
	if rate := a.demand(r); rate.Valid {
		add := remembered
		if p.rebuilding {
			add = appended
		}
		r.demand.History = add(r.demand.History, windows.Rate{
			At:        p.now.Add(-r.observed.Age),
			Span:      r.observed.Span,
			PerSecond: rate.Float64,
			Partial:   !r.observed.Coverage.RatesComplete(),
		})
	}
}

func (a tokenThroughput) lacks(p *pass, r *role) string {
	switch {
	case r.Kind == "":
		return "its kind is not known, so its tokens cannot be counted"
	case a.capacities.of(r.Kind) <= 0:
		return "spec.algorithm gives its kind no capacity"
	case !r.demand.History.Reaches(p.now, a.stable):
		return "no window of its demand exists yet"
	}
	return ""
}

func (a tokenThroughput) recommend(p *pass, r *role) recommendation {
	capacity := a.capacities.of(r.Kind)
	stable := r.demand.History.Over(p.now, a.stable)
	rec := recommendation{
		raw:     replicas(stable.PerSecond.Float64 / capacity),
		reason:  ReasonTokenThroughput,
		partial: stable.Partial,
		young:   !p.rebuilding && !spans(r.demand.History, p.now, a.stable, windows.MaxGap(p.interval())),
	}
	a.panics(p, r, &rec)
	a.guardLatency(r, &rec)
	return rec
}

// panics takes the larger of the two windows and lets nothing shrink from a burst until one stable window after its end (D16).
func (a tokenThroughput) panics(p *pass, r *role, rec *recommendation) {
	if a.bursts(p, r) {
		r.next.PanicUntil = p.now.Add(a.stable)
	}
	if !p.now.Before(r.next.PanicUntil) {
		r.next.PanicUntil = time.Time{}
		return
	}
	recent := r.demand.History.Over(p.now, a.panic).PerSecond
	if recent.Valid {
		rec.raw = max(rec.raw, replicas(recent.Float64/a.capacities.of(r.Kind)))
	}
	rec.raw = max(rec.raw, r.Replicas)
	rec.reason, rec.hold = ReasonPanic, ReasonPanic
}

// bursts says that the recent rate reaches the threshold now: the rate itself, not a rounded count (D16).
func (a tokenThroughput) bursts(p *pass, r *role) bool {
	recent := r.demand.History.Over(p.now, a.panic).PerSecond
	carried := float64(r.observed.Coverage.ReadyReplicas) * a.capacities.of(r.Kind)
	return recent.Valid && recent.Float64 >= a.threshold*carried*(1-comparisonSlack)
}
