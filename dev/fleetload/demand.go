package main

import (
	"hash/fnv"
	"math"
	"sync"
	"time"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

const (
	// usual demand of a role, in tokens a second: one and a half replicas' worth, so that two are right.
	usual = 1500.0
	// perReplica is what a replica serves.
	perReplica = 1000
	// swing is the part of the demand that comes and goes, over swingPeriod.
	swing       = 0.1
	swingPeriod = 97 * time.Second
	// burst multiplies the demand of some.
	burst = 12
)

// demand of the fleet: a function of role and time, so that history can be told at any time.
type demand struct {
	mu     sync.Mutex
	bursts map[deployment]time.Time // since when
	seen   map[deployment]time.Time // when the last role of a bursting deployment first told so
}

// deployment names one.
type deployment struct{ namespace, name string }

func deploymentOf(k observe.RoleKey) deployment { return deployment{k.Namespace, k.Deployment} }

func newDemand() *demand {
	return &demand{bursts: map[deployment]time.Time{}, seen: map[deployment]time.Time{}}
}

// burst begins now, of these.
func (d *demand) burst(of []deployment, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range of {
		d.bursts[name] = now
	}
}

// of a role, in tokens a second at any time, as it is known now.
func (d *demand) of(k observe.RoleKey) func(time.Time) float64 {
	phase := float64(hash(k)%1000) / 1000
	d.mu.Lock()
	defer d.mu.Unlock()
	since, bursting := d.bursts[deploymentOf(k)]
	return func(t time.Time) float64 {
		turns := float64(t.UnixNano())/float64(swingPeriod) + phase
		tokens := usual * (1 + swing*math.Sin(2*math.Pi*turns))
		if bursting && !t.Before(since) {
			tokens *= burst
		}
		return tokens
	}
}

// told notes that an observation of t was published: the first of each role that shows the burst counts, the last role's.
func (d *demand) told(k observe.RoleKey, t time.Time, every time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if since, bursting := d.bursts[deploymentOf(k)]; bursting && t.Sub(since) < every {
		d.seen[deploymentOf(k)] = t
	}
}

// observed is when a burst could be known, by deployment.
func (d *demand) observed() map[deployment]time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make(map[deployment]time.Time, len(d.seen))
	for k, v := range d.seen {
		out[k] = v
	}
	return out
}

// observation of a role that is served well.
func observation(a observe.Assignment, sequence uint64, end time.Time, tokens float64) observe.RoleObservation {
	n := len(a.Pods)
	return observe.RoleObservation{
		Key: a.Key, Kind: a.Kind, Engine: observe.VLLM, Sequence: sequence, Start: end.Add(-time.Second), End: end,
		Interval: a.Interval, Span: a.Interval, State: observe.Fresh,
		Coverage: observe.Coverage{ReadyReplicas: a.ReadyReplicas, Targets: n, Selected: n, Answered: n, Rated: n},
		Running:  observe.Known(math.Round(tokens / 100)), Waiting: observe.Known(0),
		Prompt: observe.Known(tokens), RawPrompt: observe.Known(2 * tokens), Generation: observe.Known(tokens), KVCacheUsage: observe.Known(0.5),
		TTFT: observe.Latency{Milliseconds: 200, Source: observe.FromBucket, Count: 100, SumSeconds: 15},
		ITL:  observe.Latency{Milliseconds: 20, Source: observe.FromBucket, Count: 1000, SumSeconds: 18},
	}
}

func hash(k observe.RoleKey) uint64 {
	h := fnv.New64a()
	for _, part := range []string{k.Namespace, k.Deployment, k.UID} { // the roles of a deployment are observed together
		_, _ = h.Write([]byte(part))
	}
	return h.Sum64()
}
