package decide

import (
	"math"
	"time"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// staleSlack is what an observation may be late beyond two intervals (D12).
const staleSlack = 2 * time.Second

// observeRoles takes each role's latest observation and says how far it can be used.
func (p *pass) observeRoles() {
	for _, r := range p.roles {
		latest, seen := p.in.Observations[r.Name]
		seen = seen && !latest.Replayed
		if seen {
			r.fresh = r.known == nil || latest.Sequence != r.known.Observed.Sequence || !latest.Start.Equal(r.known.Observed.Start)
			r.observed = trusted(latest)
			r.next.Observed = r.observed
		}
		if r.fresh {
			p.algorithm.remember(p, r)
		}
		r.signal, r.reason, r.why = p.signalOf(r, seen)
		r.next.Signal = r.signal
	}
	p.lendFirstTokenTime()
}

// lendFirstTokenTime gives Prefill roles without a TTFT that of the target's first Decode role that has a current one: SGLang
// records it there alone (D11). vLLM records it on both halves, so that a missing one is missing.
func (p *pass) lendFirstTokenTime() {
	lent := observe.Latency{}
	for _, r := range p.roles {
		if r.Kind == observe.Decode && r.usable() && !lent.Value().Valid {
			lent = r.observed.TTFT
		}
	}
	for _, r := range p.roles {
		if r.Kind == observe.Prefill && r.usable() && r.observed.Engine != observe.VLLM && !r.observed.TTFT.Value().Valid {
			r.observed.TTFT, r.next.Observed.TTFT = lent, lent
		}
	}
}

// signalOf is the state of a role's signals (D12), with the role's reason and a sentence when they cannot be used.
func (p *pass) signalOf(r *role, seen bool) (state observe.SignalState, reason, why string) {
	c := r.observed.Coverage
	switch {
	case r.ready == 0:
		return observe.Missing, ReasonNoReadyReplicas, "no replica is ready"
	case r.Unmanaged:
		return observe.Missing, ReasonWaitingForMetrics, "it has a command of its own, so its signals are not managed"
	case r.ElasticEP:
		return observe.Missing, ReasonWaitingForMetrics, "it has elasticEp, which does not scale by replicas"
	case !seen:
		return observe.Missing, ReasonWaitingForMetrics, "nothing was observed yet"
	case r.observed.Age > 2*p.interval()+staleSlack:
		return observe.Stale, ReasonWaitingForMetrics, "the latest observation is too old"
	case c.ReadyReplicas <= 0:
		return observe.Missing, ReasonNoReadyReplicas, "no ready replica was observed yet"
	case c.Answered <= 0:
		return observe.Missing, ReasonWaitingForMetrics, "no replica answered"
	case p.algorithm.sizes(r) && p.algorithm.lacks(p, r) != "":
		return observe.Missing, ReasonWaitingForMetrics, p.algorithm.lacks(p, r)
	case r.idle():
		return observe.Idle, "", ""
	}
	return observe.Fresh, "", ""
}

// usable says that the algorithm has what it needs to size the role.
func (r *role) usable() bool { return r.signal == observe.Fresh || r.signal == observe.Idle }

// covered says that every target is in the sums that the algorithm reads (D3).
func (p *pass) covered(r *role) bool {
	if p.algorithm.rates() {
		return r.observed.Coverage.RatesComplete()
	}
	return r.observed.Coverage.Complete()
}

// idle is a successfully observed role without any work in this pass (D12). A Decode role has no prompt rate (D9).
func (r *role) idle() bool {
	o := &r.observed
	zero := func(v observe.Value) bool { return v.Valid && v.Float64 == 0 }
	return o.Coverage.Complete() && zero(o.Running) && zero(o.Waiting) && zero(o.Generation) && (r.Kind == observe.Decode || zero(o.Prompt))
}

// largest reading that is taken as it is: above any real one, and far from where sums overflow (D42).
const largest = 1e15

// trusted is the observation with every value that cannot be true taken for missing, and the largest saturated.
func trusted(o observe.RoleObservation) observe.RoleObservation {
	for _, v := range []*observe.Value{&o.Running, &o.Waiting, &o.Prompt, &o.RawPrompt, &o.Generation, &o.KVCacheUsage} {
		if !sane(v.Float64) {
			*v = observe.Value{}
		}
		v.Float64 = min(v.Float64, largest)
	}
	for _, l := range []*observe.Latency{&o.TTFT, &o.ITL} {
		if !sane(l.Milliseconds) {
			*l = observe.Latency{}
		}
		l.Milliseconds = min(l.Milliseconds, largest)
	}
	o.Age = max(0, o.Age)
	return o
}

func sane(f float64) bool { return f >= 0 && !math.IsInf(f, 1) }
