package windows

import (
	"time"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// maxUncovered is how many uncovered Pods an observation names.
const maxUncovered = 64

// PodResult is what one pass learnt from one Pod.
type PodResult struct {
	// At is when the answer came, on the monotonic clock.
	At time.Time
	// Sample of the answer; not to be looked at when Reason is set.
	Sample observe.Sample
	// Reason there is no Sample; empty when there is one. Message is the detail for people.
	Reason  observe.UncoveredReason
	Message string
}

// Role folds the scrapes of one role into observations. It remembers the latest good Sample of each Pod, by UID; a Pod that
// leaves the assignment and comes back soon is still known. The zero Role is ready.
type Role struct {
	pods     map[string]baseline
	last     time.Time // end of the previous pass
	sequence uint64
}

// Pass folds one pass that began at start and ends at now. results[i] is about a.Pods[i]; Pods without a result are those
// over the cap.
func (r *Role) Pass(a observe.Assignment, start, now time.Time, results []PodResult) observe.RoleObservation {
	r.forget(now, a.Interval)
	r.sequence++
	f := fold{out: observe.RoleObservation{
		Key: a.Key, Kind: a.Kind, Sequence: r.sequence, Start: start, End: now, Interval: a.Interval, Span: r.span(a, now),
		Coverage: observe.Coverage{ReadyReplicas: a.ReadyReplicas, Targets: len(a.Pods), Selected: len(results)},
	}}
	for i, result := range results {
		f.add(a.Pods[i], result, r)
	}
	for _, pod := range a.Pods[len(results):] {
		f.uncovered(pod, observe.OverCap, "")
	}
	r.last = now
	return f.finish()
}

// span is the time that this pass's rates stand for (D13).
func (r *Role) span(a observe.Assignment, now time.Time) time.Duration {
	if r.last.IsZero() {
		return a.Interval
	}
	return now.Sub(r.last)
}

// forget drops baselines that are too old to be compared with (D7).
func (r *Role) forget(now time.Time, interval time.Duration) {
	if r.pods == nil {
		r.pods = map[string]baseline{}
	}
	for uid, b := range r.pods {
		if now.Sub(b.at) > maxElapsed(interval) {
			delete(r.pods, uid)
		}
	}
}

// change compares a sample with the Pod's baseline, and makes it the new one.
func (r *Role) change(pod observe.Pod, result PodResult, interval time.Duration) (flow, observe.UncoveredReason) {
	if result.Sample.InvalidCounter != "" {
		delete(r.pods, pod.UID)
		return flow{}, observe.InvalidValue
	}
	old, known := r.pods[pod.UID]
	next := baseline{incarnation: pod.Incarnation, at: result.At, sample: result.Sample}
	if !known {
		r.pods[pod.UID] = next
		return flow{}, observe.NoBaseline
	}
	if !result.At.After(old.at) {
		return flow{}, observe.NotScraped
	}
	change, reason := old.flowTo(&next, interval)
	r.pods[pod.UID] = next
	return change, reason
}

// fold adds Pods up to an observation.
type fold struct {
	out      observe.RoleObservation
	kvUsage  float64
	kvPods   int
	ttft     []histogramDelta
	itl      []histogramDelta
	gauges   [2]float64 // running, waiting
	rates    [3]float64 // prompt, raw prompt, generation
	uncounts []observe.UncoveredPod
}

func (f *fold) add(pod observe.Pod, result PodResult, r *Role) {
	s := &result.Sample
	switch {
	case result.Reason != "":
		f.uncovered(pod, result.Reason, result.Message)
		return
	case s.InvalidGauge != "":
		delete(r.pods, pod.UID)
		f.uncovered(pod, observe.InvalidValue, s.InvalidGauge+" is no usable number")
		return
	case !s.Running.Valid || !s.Waiting.Valid:
		f.uncovered(pod, observe.NoEngineSeries, "the exposition lacks running or waiting requests")
		return
	}
	f.answered(s)
	change, reason := r.change(pod, result, f.out.Interval)
	if reason != "" {
		f.uncovered(pod, reason, unratedMessage(reason, s))
		return
	}
	f.out.Coverage.Rated++
	f.rates[0] += change.prompt
	f.rates[1] += change.rawPrompt
	f.rates[2] += change.generation
	f.ttft = append(f.ttft, change.ttft...)
	f.itl = append(f.itl, change.itl...)
}

// answered adds the gauges, which need no baseline.
func (f *fold) answered(s *observe.Sample) {
	f.out.Coverage.Answered++
	if f.out.Engine == "" {
		f.out.Engine = s.Engine
	}
	f.gauges[0] += s.Running.Float64
	f.gauges[1] += s.Waiting.Float64
	if f.out.Kind == observe.Decode {
		f.gauges[1] += s.TransferQueue.Float64 // zero when missing; vLLM has it inside waiting
	}
	if s.KVCacheUsage.Valid {
		f.kvUsage += s.KVCacheUsage.Float64
		f.kvPods++
	}
}

func (f *fold) uncovered(pod observe.Pod, reason observe.UncoveredReason, message string) {
	if len(f.uncounts) < maxUncovered {
		f.uncounts = append(f.uncounts, observe.UncoveredPod{Name: pod.Name, Reason: reason, Message: message})
	}
}

func unratedMessage(reason observe.UncoveredReason, s *observe.Sample) string {
	switch reason {
	case observe.InvalidValue:
		return s.InvalidCounter + " is no usable number"
	case observe.Reset:
		return "the container restarted or a counter fell: rates need another scrape"
	case observe.NoBaseline:
		return "rates need a second scrape"
	default:
		return ""
	}
}

func (f *fold) finish() observe.RoleObservation {
	o := &f.out
	o.Coverage.Uncovered = f.uncounts
	if o.Coverage.Answered > 0 {
		o.Running, o.Waiting = observe.Known(f.gauges[0]), observe.Known(f.gauges[1])
	}
	if f.kvPods > 0 {
		o.KVCacheUsage = observe.Known(f.kvUsage / float64(f.kvPods))
	}
	if o.Coverage.Rated > 0 {
		o.Generation = observe.Known(f.rates[2])
		// A decode engine counts the prompt tokens that were sent to it: they say nothing of its work (D9).
		if o.Kind != observe.Decode {
			o.Prompt, o.RawPrompt = observe.Known(f.rates[0]), observe.Known(f.rates[1])
		}
	}
	o.TTFT = latencyOf(f.ttft)
	// An SGLang prefill engine records something else there (D11).
	if o.Kind != observe.Prefill || o.Engine != observe.SGLang {
		o.ITL = latencyOf(f.itl)
	}
	o.State = stateOf(o)
	return *o
}

// stateOf is what the sampler can tell of D12: whether an algorithm needs a rate that is missing is for the planner to say.
func stateOf(o *observe.RoleObservation) observe.SignalState {
	if o.Coverage.ReadyReplicas == 0 || o.Coverage.Answered == 0 {
		return observe.Missing
	}
	work := o.Running.Float64 + o.Waiting.Float64 + o.Prompt.Float64 + o.Generation.Float64
	if work == 0 && o.Coverage.RatesComplete() {
		return observe.Idle
	}
	return observe.Fresh
}
