package decide

import (
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// breachOfGrowth is the relative latency above which the guard asks for a replica; above 1 it only holds (D18).
const breachOfGrowth = 1.2

// guardLatency holds shrinking while a latency is above its target, or not known while there is work, and asks for one more
// than the ready replicas when it is far above (D17, D18).
func (a tokenThroughput) guardLatency(r *role, rec *recommendation) {
	breach := a.breach(r)
	switch {
	case !breach.Valid && r.signal == observe.Idle:
		return
	case breach.Valid && breach.Float64 > breachOfGrowth*(1+comparisonSlack):
		rec.oneMore(r)
		rec.reason, rec.hold = ReasonLatencyGuardScaleUp, ReasonLatencyGuardScaleUp
	case !breach.Valid || breach.Float64 > 1+comparisonSlack:
		if rec.hold == "" && rec.raw < r.Replicas {
			rec.reason = ReasonLatencyGuardHold
		}
		if rec.hold == "" {
			rec.hold = ReasonLatencyGuardHold
		}
	}
}

// oneMore asks for one more than the ready replicas, never less than the current ones: replicas that are still loading are
// not asked for again (D17).
func (rec *recommendation) oneMore(r *role) {
	ready := saturated(int64(r.observed.Coverage.ReadyReplicas) + 1)
	rec.raw = max(rec.raw, ready, r.Replicas)
}

// breach is the larger of the role's latencies relative to their targets; missing when none is known. A Server with one of
// its two is judged by that one (D64).
func (a tokenThroughput) breach(r *role) observe.Value {
	var worst observe.Value
	consider := func(l observe.Value, target float64) {
		if l.Valid {
			worst = observe.Known(max(worst.Float64, l.Float64/target))
		}
	}
	if r.Kind != observe.Decode {
		consider(r.observed.TTFT.Value(), a.ttft)
	}
	if r.Kind != observe.Prefill {
		consider(r.observed.ITL.Value(), a.itl)
	}
	return worst
}
