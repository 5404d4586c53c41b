package stream

import (
	"cmp"
	"math"
	"strings"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// DecodeObservation reads an observation from the wire. An unknown kind becomes the unknown kind, an unknown state Missing,
// a latency of unknown source missing. What no sampler can mean is refused with an error that names the field.
func DecodeObservation(p *observationv1.RoleObservation) (observe.RoleObservation, error) {
	d := &decoder{}
	if p == nil {
		d.fail("observation", "must be set")
		return observe.RoleObservation{}, d.err
	}
	o := observe.RoleObservation{
		Key:          d.key(p.Key),
		Kind:         kinds.decode(p.Kind),
		Engine:       observe.Engine(d.text("engine", p.Engine, maxText)),
		Sequence:     p.Sequence,
		Start:        d.time("start_time", p.StartTime),
		End:          d.time("end_time", p.EndTime),
		Age:          d.duration("age", p.Age),
		Interval:     d.duration("interval", p.Interval),
		Span:         d.duration("span", p.Span),
		Replayed:     p.Replayed,
		Coverage:     d.coverage("coverage", p.Coverage),
		State:        stateOf(p.State),
		Running:      d.value("running_requests", p.RunningRequests),
		Waiting:      d.value("waiting_requests", p.WaitingRequests),
		Prompt:       d.value("prompt_tokens_per_second", p.PromptTokensPerSecond),
		RawPrompt:    d.value("raw_prompt_tokens_per_second", p.RawPromptTokensPerSecond),
		Generation:   d.value("generation_tokens_per_second", p.GenerationTokensPerSecond),
		KVCacheUsage: d.value("kv_cache_usage_ratio", p.KvCacheUsageRatio),
		TTFT:         d.latency("ttft", p.Ttft),
		ITL:          d.latency("itl", p.Itl),
	}
	return o, d.err
}

// stateOf reads a state that is not known as the careful one.
func stateOf(p observationv1.SignalState) observe.SignalState {
	return cmp.Or(states.decode(p), observe.Missing)
}

func (d *decoder) key(p *observationv1.RoleKey) observe.RoleKey {
	return observe.RoleKey{
		Namespace:  d.name("key.namespace", p.GetNamespace()),
		Deployment: d.name("key.deployment", p.GetDeployment()),
		UID:        d.name("key.deployment_uid", p.GetDeploymentUid()),
		Role:       d.name("key.role", p.GetRole()),
	}
}

// coverage refuses counts that contradict each other: they decide whether a role may shrink (D3).
func (d *decoder) coverage(field string, p *observationv1.Coverage) observe.Coverage {
	c := observe.Coverage{
		ReadyReplicas: d.count(field+".ready_replicas", p.GetReadyReplicas()),
		Targets:       d.count(field+".targets", p.GetTargets()),
		Selected:      d.count(field+".selected", p.GetSelected()),
		Answered:      d.count(field+".answered", p.GetAnswered()),
		Rated:         d.count(field+".rated", p.GetRated()),
	}
	if c.Selected > c.Targets || c.Answered > c.Selected || c.Rated > c.Answered {
		d.fail(field, "%d targets, %d selected, %d answered, %d rated: each must be part of the one before", c.Targets, c.Selected, c.Answered, c.Rated)
	}
	if !d.list(field+".uncovered", len(p.GetUncovered()), maxUncovered) {
		return c
	}
	for _, u := range p.GetUncovered() {
		c.Uncovered = append(c.Uncovered, observe.UncoveredPod{
			Name:    d.name(field+".uncovered.name", u.GetName()),
			Reason:  reasons.decode(u.GetReason()),
			Message: d.text(field+".uncovered.message", u.GetMessage(), maxText),
		})
	}
	return c
}

func (d *decoder) latency(field string, p *observationv1.Latency) observe.Latency {
	source := sources.decode(p.GetSource())
	if source == "" || !d.list(field+".buckets", len(p.GetBuckets()), maxBuckets) {
		return observe.Latency{}
	}
	l := observe.Latency{
		Milliseconds: d.number(field+".milliseconds", p.GetMilliseconds()),
		Source:       source,
		Count:        d.number(field+".count", p.GetCount()),
		SumSeconds:   d.number(field+".sum_seconds", p.GetSumSeconds()),
	}
	before := math.Inf(-1)
	for _, b := range p.GetBuckets() {
		if !(b.GetLeSeconds() > before) {
			d.fail(field+".buckets.le_seconds", "%v does not ascend from %v", b.GetLeSeconds(), before)
		}
		before = b.GetLeSeconds()
		l.Buckets = append(l.Buckets, observe.Bucket{LESeconds: before, Count: d.number(field+".buckets.count", b.GetCount())})
	}
	return l
}

func (d *decoder) assignment(p *observationv1.RoleAssignment) observe.Assignment {
	a := observe.Assignment{
		Key:           d.key(p.GetKey()),
		Kind:          kinds.decode(p.GetKind()),
		Engine:        d.text("engine", p.GetEngine(), maxText),
		Interval:      d.duration("interval", p.GetInterval()),
		ReadyReplicas: d.count("ready_replicas", p.GetReadyReplicas()),
		LastScrapeAge: -1,
	}
	if a.Interval == 0 {
		d.fail("interval", "must be over 0")
	}
	if p.GetLastScrapeAge() != nil {
		a.LastScrapeAge = d.duration("last_scrape_age", p.GetLastScrapeAge())
	}
	if !d.list("pods", len(p.GetPods()), maxPods) {
		return a
	}
	for _, pod := range p.GetPods() {
		a.Pods = append(a.Pods, d.pod("pods", pod))
	}
	return a
}

// pod checks what a URL is made of, so that no other than the Pod's own endpoint can be reached (D5).
func (d *decoder) pod(field string, p *observationv1.PodTarget) observe.Pod {
	pod := observe.Pod{
		Name:        d.name(field+".name", p.GetName()),
		UID:         d.name(field+".uid", p.GetUid()),
		Incarnation: d.text(field+".incarnation", p.GetIncarnation(), maxText),
		Ordinal:     d.count(field+".ordinal", p.GetOrdinal()),
		Address:     d.address(field+".address", p.GetAddress()),
		Port:        d.count(field+".port", p.GetPort()),
		Scheme:      p.GetScheme(),
		Path:        d.text(field+".path", p.GetPath(), maxPath),
		Node:        d.text(field+".node", p.GetNode(), maxText),
	}
	if pod.Port < 1 || pod.Port > math.MaxUint16 {
		d.fail(field+".port", "%d is not a port from 1 to 65535", pod.Port)
	}
	if pod.Scheme != "http" && pod.Scheme != "https" {
		d.fail(field+".scheme", "must be http or https")
	}
	if !strings.HasPrefix(pod.Path, "/") {
		d.fail(field+".path", "must start with /")
	}
	return pod
}
