package stream

import (
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

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

// byRole makes lists of observations that follow each other and are of one role, none longer than a message tells. A list
// is good until the next.
func byRole(observations iter.Seq[observe.RoleObservation]) iter.Seq[[]observe.RoleObservation] {
	return func(yield func([]observe.RoleObservation) bool) {
		var list []observe.RoleObservation
		for o := range observations {
			if n := len(list); n == maxReplay || n > 0 && list[0].Key != o.Key {
				if !yield(list) {
					return
				}
				list = list[:0]
			}
			list = append(list, o)
		}
		if len(list) > 0 {
			yield(list)
		}
	}
}

// EncodeReplay writes a role's history, which is not empty, for the wire. It never fails, as EncodeObservation does not.
func EncodeReplay(list []observe.RoleObservation) *observationv1.RoleReplay {
	p := &observationv1.RoleReplay{Key: encodeKey(list[0].Key)}
	var row *observationv1.ReplayRun
	var o, before observe.RoleObservation
	for i := range list {
		before, o = o, clean(list[i])
		if i == 0 || !alike(&before, &o) {
			row = newRun(o)
			p.Runs = append(p.Runs, row)
		}
		row.AgeNanoseconds = append(row.AgeNanoseconds, max(0, int64(o.Age)))
		row.Sequence = append(row.Sequence, o.Sequence)
		row.SpanNanoseconds = append(row.SpanNanoseconds, max(0, int64(o.Span)))
		for _, c := range columns {
			if v := c.value(&o); v.Valid {
				*c.list(row) = append(*c.list(row), v.Float64)
			}
		}
		if o.TTFT.Source != "" {
			row.TtftMilliseconds = append(row.TtftMilliseconds, o.TTFT.Milliseconds)
		}
		if o.ITL.Source != "" {
			row.ItlMilliseconds = append(row.ItlMilliseconds, o.ITL.Milliseconds)
		}
	}
	return p
}

// clean takes what is no number for missing, and drops the details.
func clean(o observe.RoleObservation) observe.RoleObservation {
	for _, c := range columns {
		if v := c.value(&o); !finite(v.Float64) {
			*v = observe.Value{}
		}
	}
	for _, l := range []*observe.Latency{&o.TTFT, &o.ITL} {
		if !finite(l.Milliseconds) {
			l.Source = ""
		}
	}
	o.Coverage.Uncovered = nil
	return o
}

// alike says whether two passes can share a run.
func alike(a, b *observe.RoleObservation) bool {
	for _, c := range columns {
		if c.value(a).Valid != c.value(b).Valid {
			return false
		}
	}
	x, y := &a.Coverage, &b.Coverage
	return a.Kind == b.Kind && a.Engine == b.Engine && a.State == b.State && a.Interval == b.Interval &&
		a.TTFT.Source == b.TTFT.Source && a.ITL.Source == b.ITL.Source &&
		x.ReadyReplicas == y.ReadyReplicas && x.Targets == y.Targets && x.Selected == y.Selected && x.Answered == y.Answered && x.Rated == y.Rated
}

func newRun(o observe.RoleObservation) *observationv1.ReplayRun {
	return &observationv1.ReplayRun{
		Kind: kinds.encode(o.Kind), Engine: cleanText(string(o.Engine)), State: states.encode(o.State),
		Interval: durationpb.New(max(0, o.Interval)), Coverage: encodeCoverage(o.Coverage),
		TtftSource: sources.encode(o.TTFT.Source), ItlSource: sources.encode(o.ITL.Source),
	}
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
