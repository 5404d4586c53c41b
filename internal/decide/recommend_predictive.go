package decide

import (
	"time"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

// Defaults of Predictive (spec "Predictive").
const (
	defaultHorizonSeconds = 300
	defaultMinPoints      = 6
	defaultQLevel         = 1
	defaultQTrend         = 0.1
	defaultNoise          = 10
)

// consolidationShare of the forecast capacity is what the remaining replicas may carry after a removal (D20).
const consolidationShare = 0.8

// predictive forecasts demand, and never recommends less than the token windows do (spec "Predictive").
type predictive struct {
	tokenThroughput
	forecastCapacities capacities
	filter             filter
	horizon            time.Duration
	minPoints          int64
}

func newPredictive(spec *workerv1.Predictive) algorithm {
	if spec == nil {
		return unsupported{}
	}
	a := predictive{
		tokenThroughput: tokensOf(&spec.TokenThroughput),
		forecastCapacities: capacities{
			server:  positive(spec.ServerTokenCapacityPerReplica, 0),
			prefill: positive(spec.PrefillTokenCapacityPerReplica, 0),
			decode:  positive(spec.DecodeTokenCapacityPerReplica, 0),
		},
		filter: filter{
			qLevel: positive(spec.QLevel, defaultQLevel),
			qTrend: positive(spec.QTrend, defaultQTrend),
			noise:  positive(spec.MeasurementNoise, defaultNoise),
		},
		horizon:   seconds(spec.HorizonSeconds, defaultHorizonSeconds),
		minPoints: int64(spec.MinPoints),
	}
	if a.minPoints <= 0 {
		a.minPoints = defaultMinPoints
	}
	return a
}

// remember feeds the windows, and the filter with each pass's demand (D57). A partial sum is a lower bound: what it would
// tell the filter is a fall that never happened, and a rise when it ends.
func (a predictive) remember(p *pass, r *role) {
	before := r.demand.History
	a.tokenThroughput.remember(p, r)
	after := r.demand.History
	if n := len(after); n > 0 && !after[n-1].Partial && (len(before) == 0 || after[n-1].At.After(before[len(before)-1].At)) {
		r.demand = a.filter.update(r.demand, a.horizon)
	}
}

func (a predictive) lacks(p *pass, r *role) string {
	if r.Kind != "" && a.forecastCapacities.of(r.Kind) <= 0 {
		return "spec.algorithm gives its kind no forecast capacity"
	}
	return a.tokenThroughput.lacks(p, r)
}

func (a predictive) recommend(p *pass, r *role) recommendation {
	rec := a.tokenThroughput.recommend(p, r)
	if r.demand.Samples < a.minPoints {
		rec.reason = ReasonPredictorWarmingUp
		return rec
	}
	forecast, capacity := r.demand.forecast(a.horizon), a.forecastCapacities.of(r.Kind)
	rec.raw = max(rec.raw, replicas(forecast/capacity))
	if rec.reason == ReasonTokenThroughput {
		rec.reason = ReasonPredictive
	}
	if a.bursts(p, r) {
		rec.oneMore(r)
	}
	a.consolidate(p, r, forecast, capacity, &rec)
	return rec
}

// consolidate lets a replica go only if the others then carry at most 80 % of their forecast capacity (D20).
func (a predictive) consolidate(p *pass, r *role, forecast, capacity float64, rec *recommendation) {
	if rec.raw >= r.Replicas || rec.hold != "" {
		return
	}
	demand := max(forecast, r.demand.History.Over(p.now, a.stable).PerSecond.Float64)
	if demand > consolidationShare*capacity*float64(r.Replicas-1)*(1+comparisonSlack) {
		rec.reason, rec.hold = ReasonConsolidationHold, ReasonConsolidationHold
	}
}
