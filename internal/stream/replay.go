package stream

import (
	"time"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// maxReplay is how many passes one message of a replay tells: all that is kept of a role (D55), and more.
const maxReplay = 512

// Replay is the history of one role, or a part of it, as small as it came: some 90 bytes a pass. It never changes.
type Replay struct {
	Key  observe.RoleKey
	runs []run
}

// run is a row of passes and what they have in common.
type run struct {
	common observe.RoleObservation
	lists  *observationv1.ReplayRun
}

// column connects a value of an observation with its list in a run.
type column struct {
	field string
	list  func(*observationv1.ReplayRun) *[]float64
	value func(*observe.RoleObservation) *observe.Value
}

var columns = []column{
	{"running_requests", func(r *observationv1.ReplayRun) *[]float64 { return &r.RunningRequests }, func(o *observe.RoleObservation) *observe.Value { return &o.Running }},
	{"waiting_requests", func(r *observationv1.ReplayRun) *[]float64 { return &r.WaitingRequests }, func(o *observe.RoleObservation) *observe.Value { return &o.Waiting }},
	{"prompt_tokens_per_second", func(r *observationv1.ReplayRun) *[]float64 { return &r.PromptTokensPerSecond }, func(o *observe.RoleObservation) *observe.Value { return &o.Prompt }},
	{"raw_prompt_tokens_per_second", func(r *observationv1.ReplayRun) *[]float64 { return &r.RawPromptTokensPerSecond }, func(o *observe.RoleObservation) *observe.Value { return &o.RawPrompt }},
	{"generation_tokens_per_second", func(r *observationv1.ReplayRun) *[]float64 { return &r.GenerationTokensPerSecond }, func(o *observe.RoleObservation) *observe.Value { return &o.Generation }},
	{"kv_cache_usage_ratio", func(r *observationv1.ReplayRun) *[]float64 { return &r.KvCacheUsageRatio }, func(o *observe.RoleObservation) *observe.Value { return &o.KVCacheUsage }},
}

// DecodeReplay reads a history from the wire. What no sampler can mean is refused with an error that names the field.
func DecodeReplay(p *observationv1.RoleReplay) (Replay, error) {
	d := &decoder{}
	r, passes := Replay{Key: d.key(p.GetKey())}, 0
	for _, row := range p.GetRuns() {
		passes += len(row.GetAgeNanoseconds())
		if d.list("runs", passes, maxReplay) {
			r.runs = append(r.runs, d.run(r.Key, row))
		}
	}
	return r, d.err
}

func (d *decoder) run(key observe.RoleKey, p *observationv1.ReplayRun) run {
	n := len(p.AgeNanoseconds)
	whole := n > 0 && len(p.Sequence) == n && len(p.SpanNanoseconds) == n
	for _, list := range [][]int64{p.AgeNanoseconds, p.SpanNanoseconds} {
		for i, v := range list {
			whole = whole && v >= 0
			list[i] = min(v, int64(maxDuration))
		}
	}
	for _, c := range columns {
		d.column("runs."+c.field, *c.list(p), n)
	}
	d.column("runs.ttft_milliseconds", p.TtftMilliseconds, n)
	d.column("runs.itl_milliseconds", p.ItlMilliseconds, n)
	if !whole {
		d.fail("runs", "an age, a sequence and a span from 0 are needed of every pass, and at least one pass")
	}
	return run{common: observe.RoleObservation{
		Key: key, Kind: kinds.decode(p.Kind), Engine: observe.Engine(d.text("runs.engine", p.Engine, maxText)), Replayed: true,
		Interval: d.duration("runs.interval", p.Interval), Coverage: d.coverage("runs.coverage", p.Coverage), State: stateOf(p.State),
	}, lists: p}
}

// column checks a list of n passes, or none.
func (d *decoder) column(field string, list []float64, n int) {
	if len(list) != 0 && len(list) != n {
		d.fail(field, "%d entries for %d passes", len(list), n)
	}
	for _, v := range list {
		d.number(field, v)
	}
}

// Len is how many passes are told.
func (r Replay) Len() (n int) {
	for _, row := range r.runs {
		n += len(row.lists.AgeNanoseconds)
	}
	return n
}

// Spans says whether the passes reach back over a span and follow each other without a gap that is longer than maxGap of their
// interval.
func (r Replay) Spans(span time.Duration, maxGap func(interval time.Duration) time.Duration) bool {
	before := span
	for _, row := range r.runs {
		for _, age := range row.lists.AgeNanoseconds {
			if before-time.Duration(age) > maxGap(row.common.Interval) {
				return false
			}
			before = time.Duration(age)
		}
	}
	n := len(r.runs)
	return n > 0 && before <= maxGap(r.runs[n-1].common.Interval)
}

// Observations are the passes, oldest first, Age as of when the Replay arrived and Start the same as End, as far as that was
// before at, on this process's clock: a sampler's is not compared with.
func (r Replay) Observations(at time.Time) []observe.RoleObservation {
	return r.AppendTo(make([]observe.RoleObservation, 0, r.Len()), at)
}

// AppendTo is Observations in the caller's room.
func (r Replay) AppendTo(list []observe.RoleObservation, at time.Time) []observe.RoleObservation {
	for _, row := range r.runs {
		for i, age := range row.lists.AgeNanoseconds {
			o := row.common
			o.Age, o.Sequence, o.Span = time.Duration(age), row.lists.Sequence[i], time.Duration(row.lists.SpanNanoseconds[i])
			o.End = at.Add(-o.Age)
			o.Start = o.End
			for _, c := range columns {
				if values := *c.list(row.lists); len(values) > 0 {
					*c.value(&o) = observe.Known(values[i])
				}
			}
			o.TTFT = latencyAt(row.lists.TtftSource, row.lists.TtftMilliseconds, i)
			o.ITL = latencyAt(row.lists.ItlSource, row.lists.ItlMilliseconds, i)
			list = append(list, o)
		}
	}
	return list
}

// latencyAt is one entry of a list of latencies; missing where the list or its source is.
func latencyAt(source observationv1.LatencySource, list []float64, i int) observe.Latency {
	if len(list) == 0 || sources.decode(source) == "" {
		return observe.Latency{}
	}
	return observe.Latency{Milliseconds: list[i], Source: sources.decode(source)}
}
