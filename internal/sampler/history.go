package sampler

import (
	"slices"
	"time"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// Bounds of what is kept of one role for a replay (D55): every observation of the last rawSpan, older ones thinned to the
// busiest of each bucket.
const (
	replaySpan   = 30 * time.Minute
	replayLimit  = 256
	rawSpan      = 10 * time.Minute
	replayBucket = 10 * time.Second
)

// history keeps the recent observations of one role, oldest first, without their details: what windows, histories and
// predictors are rebuilt from.
type history []past

// past is an observation in a third of the room: a large fleet has a hundred thousand of them.
type past struct {
	*outline
	sequence   uint64
	end        time.Time
	took, span time.Duration
	values     [6]float64 // running, waiting, prompt, raw prompt, generation, KV cache usage
	ttft, itl  [3]float64 // milliseconds, count, sum
}

// outline is what an observation mostly has in common with the one before, which then shares it.
type outline struct {
	kind                                         observe.RoleKind
	engine                                       observe.Engine
	state                                        observe.SignalState
	interval                                     time.Duration
	replicas, targets, selected, answered, rated int
	known                                        [6]bool // of values
	ttft, itl                                    observe.LatencySource
}

// add appends o and forgets what is too old or too much.
func (h *history) add(o observe.RoleObservation) {
	next := pastOf(o)
	if n := len(*h); n > 0 && *(*h)[n-1].outline == *next.outline {
		next.outline = (*h)[n-1].outline
	}
	kept := (*h)[:0]
	for _, old := range *h {
		age := next.end.Sub(old.end)
		if age > replaySpan {
			continue
		}
		if n := len(kept); n > 0 && age > rawSpan && kept[n-1].bucket() == old.bucket() {
			if old.load() > kept[n-1].load() {
				kept[n-1] = old
			}
			continue
		}
		kept = append(kept, old)
	}
	kept = append(kept, next)
	clear((*h)[min(len(kept), len(*h)):])
	*h = kept[max(0, len(kept)-replayLimit):]
}

// forget drops what ended before t, and says how much that was.
func (h *history) forget(t time.Time) int {
	n := slices.IndexFunc(*h, func(p past) bool { return !p.end.Before(t) })
	if n < 0 {
		n = len(*h)
	}
	*h = slices.Delete(*h, 0, n)
	return n
}

func pastOf(o observe.RoleObservation) past {
	p := past{
		outline: &outline{
			kind: o.Kind, engine: o.Engine, state: o.State, interval: o.Interval,
			replicas: o.Coverage.ReadyReplicas, targets: o.Coverage.Targets, selected: o.Coverage.Selected,
			answered: o.Coverage.Answered, rated: o.Coverage.Rated, ttft: o.TTFT.Source, itl: o.ITL.Source,
		},
		sequence: o.Sequence, end: o.End, took: o.End.Sub(o.Start), span: o.Span,
		ttft: [3]float64{o.TTFT.Milliseconds, o.TTFT.Count, o.TTFT.SumSeconds},
		itl:  [3]float64{o.ITL.Milliseconds, o.ITL.Count, o.ITL.SumSeconds},
	}
	for i, v := range []observe.Value{o.Running, o.Waiting, o.Prompt, o.RawPrompt, o.Generation, o.KVCacheUsage} {
		p.values[i], p.known[i] = v.Float64, v.Valid
	}
	return p
}

// observation is p as it is replayed.
func (p *past) observation(key observe.RoleKey, age time.Duration) observe.RoleObservation {
	value := func(i int) observe.Value { return observe.Value{Float64: p.values[i], Valid: p.known[i]} }
	return observe.RoleObservation{
		Key: key, Kind: p.kind, Engine: p.engine, Sequence: p.sequence, Start: p.end.Add(-p.took), End: p.end, Age: age,
		Interval: p.interval, Span: p.span, Replayed: true, State: p.state,
		Coverage: observe.Coverage{ReadyReplicas: p.replicas, Targets: p.targets, Selected: p.selected, Answered: p.answered, Rated: p.rated},
		Running:  value(0), Waiting: value(1), Prompt: value(2), RawPrompt: value(3), Generation: value(4), KVCacheUsage: value(5),
		TTFT: observe.Latency{Milliseconds: p.ttft[0], Source: p.outline.ttft, Count: p.ttft[1], SumSeconds: p.ttft[2]},
		ITL:  observe.Latency{Milliseconds: p.itl[0], Source: p.outline.itl, Count: p.itl[1], SumSeconds: p.itl[2]},
	}
}

func (p *past) bucket() int64 { return p.end.UnixNano() / int64(replayBucket) }

// load orders observations of one role by demand: running, waiting, prompt and generation.
func (p *past) load() float64 { return p.values[0] + p.values[1] + p.values[2] + p.values[4] }
