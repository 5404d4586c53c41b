package stream

import (
	"iter"

	"google.golang.org/protobuf/types/known/durationpb"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

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
