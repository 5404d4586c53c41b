package sampler

import (
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
type history []observe.RoleObservation

// add appends o and forgets what is too old or too much.
func (h *history) add(o observe.RoleObservation) {
	o.TTFT.Buckets, o.ITL.Buckets, o.Coverage.Uncovered = nil, nil, nil
	kept := (*h)[:0]
	for _, old := range *h {
		age := o.End.Sub(old.End)
		if age > replaySpan {
			continue
		}
		if n := len(kept); n > 0 && age > rawSpan && bucketOf(kept[n-1]) == bucketOf(old) {
			if load(old) > load(kept[n-1]) {
				kept[n-1] = old
			}
			continue
		}
		kept = append(kept, old)
	}
	kept = append(kept, o)
	clear((*h)[min(len(kept), len(*h)):])
	*h = kept[max(0, len(kept)-replayLimit):]
}

// within lists the observations that ended within span before now, with their age.
func (h history) within(span time.Duration, now time.Time) []observe.RoleObservation {
	var out []observe.RoleObservation
	for _, o := range h {
		if age := now.Sub(o.End); age <= span {
			o.Age, o.Replayed = age, true
			out = append(out, o)
		}
	}
	return out
}

func bucketOf(o observe.RoleObservation) int64 { return o.End.UnixNano() / int64(replayBucket) }

// load orders observations of one role by demand.
func load(o observe.RoleObservation) float64 {
	return o.Prompt.Float64 + o.Generation.Float64 + o.Running.Float64 + o.Waiting.Float64
}
