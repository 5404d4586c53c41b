package scenario

import (
	"time"

	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// observations are one pass over every role, of age zero; a role that is down keeps its last one.
func (w *world) observations(every float64) map[string]observe.RoleObservation {
	found := map[string]observe.RoleObservation{}
	snapshot := w.snapshot()
	for i := range w.roles {
		r := &w.roles[i]
		reading, any := w.readings[r.Name]
		if !any || snapshot == nil {
			continue
		}
		if !reading.Down {
			w.last[r.Name] = w.observe(r, &reading, snapshot, every)
			w.seen[r.Name] = w.now
		}
		if latest, any := w.last[r.Name]; any {
			latest.Age = time.Duration((w.now - w.seen[r.Name]) * float64(time.Second))
			found[r.Name] = latest
		}
	}
	return found
}

// observe is what a sampler would say of a reading. Rates stand for the span since the previous pass.
func (w *world) observe(r *Role, reading *Reading, s *target.Snapshot, every float64) observe.RoleObservation {
	span := every
	if before, any := w.seen[r.Name]; any {
		span = w.now - before
	}
	o := observe.RoleObservation{
		Key: observe.RoleKey{Namespace: s.Namespace, Deployment: s.Name, UID: s.UID, Role: r.Name}, Kind: kindNamed(r.Kind),
		Sequence: w.last[r.Name].Sequence + 1,
		Interval: time.Duration(every * float64(time.Second)), Span: time.Duration(span * float64(time.Second)),
		Coverage: coverage(reading, target.Ready(s.Instances, r.Name)), State: observe.Missing,
	}
	if o.Coverage.Answered == 0 {
		return o
	}
	o.State = observe.Fresh
	o.Running, o.Waiting, o.KVCacheUsage = observe.Known(reading.Running), observe.Known(reading.Waiting), observe.Known(reading.KV)
	o.TTFT, o.ITL = latencyOf(reading.TTFT), latencyOf(reading.ITL)
	if o.Coverage.Rated > 0 {
		o.Generation = observe.Known(reading.Generation)
		if o.Kind != observe.Decode { // whose prompt counters are not read (D9)
			o.Prompt, o.RawPrompt = observe.Known(reading.Prompt), observe.Known(reading.Prompt)
		}
	}
	return o
}

func coverage(reading *Reading, ready int) observe.Coverage {
	if reading.Ready != nil {
		ready = *reading.Ready
	}
	answered := ready
	if reading.Answered != nil {
		answered = min(ready, *reading.Answered)
	}
	rated := answered
	if reading.Rated != nil && !*reading.Rated {
		rated = 0
	}
	return observe.Coverage{ReadyReplicas: ready, Targets: ready, Selected: ready, Answered: answered, Rated: rated}
}

func latencyOf(ms *float64) observe.Latency {
	if ms == nil {
		return observe.Latency{}
	}
	return observe.Latency{Milliseconds: *ms, Source: observe.FromBucket, Count: 1}
}
