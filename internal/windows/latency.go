package windows

import (
	"cmp"
	"math"
	"slices"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// maxBuckets is how many boundaries an observation carries; engines have some 20. With more, a latency comes without them.
const maxBuckets = 256

// histogramDelta is what one histogram gained between two scrapes. Buckets are cumulative, without the infinite one.
type histogramDelta struct {
	count   float64
	sum     observe.Value
	buckets []observe.Bucket
}

// histograms are the gains of the histograms of one signal, sorted by group.
func (c *comparison) histograms(before, after []observe.Histogram) []histogramDelta {
	var out []histogramDelta
	i := 0
	for _, now := range after {
		if i < len(before) && before[i].Group < now.Group {
			break
		}
		d := histogramDelta{now.Count, now.SumSeconds, now.Buckets}
		if i < len(before) && before[i].Group == now.Group {
			d = c.histogram(&before[i], &now)
			i++
		} else {
			c.appeared()
		}
		if d.count > 0 {
			out = append(out, d)
		}
	}
	if i < len(before) {
		c.broken, c.vanished = true, true
	}
	return out
}

func (c *comparison) histogram(old, now *observe.Histogram) histogramDelta {
	d := histogramDelta{count: now.Count - old.Count}
	if now.Member != old.Member || d.count < 0 || len(old.Buckets) != len(now.Buckets) {
		c.broken = true
		return histogramDelta{}
	}
	if d.count == 0 {
		return d // nothing to allocate for
	}
	if old.SumSeconds.Valid && now.SumSeconds.Valid {
		d.sum = observe.Known(now.SumSeconds.Float64 - old.SumSeconds.Float64)
		c.broken = c.broken || d.sum.Float64 < 0
	}
	d.buckets = make([]observe.Bucket, len(now.Buckets))
	for i, b := range now.Buckets {
		c.broken = c.broken || old.Buckets[i].LESeconds != b.LESeconds || old.Buckets[i].Count > b.Count
		b.Count -= old.Buckets[i].Count
		d.buckets[i] = b
	}
	return d
}

// latencyOf merges what the histograms of a role gained (D10): the smallest boundary that covers 95 % of the new
// observations, else their mean. Without new observations it is missing.
func latencyOf(deltas []histogramDelta) observe.Latency {
	l := observe.Latency{}
	sum := observe.Known(0)
	for _, d := range deltas {
		l.Count += d.count
		sum = sum.Plus(d.sum)
	}
	if l.Count == 0 {
		return observe.Latency{}
	}
	l.SumSeconds = sum.Float64
	l.Buckets = mergeBuckets(deltas)
	for _, b := range l.Buckets {
		if b.Count*100 >= l.Count*95 {
			l.Milliseconds, l.Source = b.LESeconds*1000, observe.FromBucket
			break
		}
	}
	if l.Source == "" && sum.Valid {
		l.Milliseconds, l.Source = sum.Float64/l.Count*1000, observe.FromMean
	}
	switch n := len(l.Buckets); {
	case n > maxBuckets:
		l.Buckets = nil
	case n > 0:
		l.Buckets = append(l.Buckets, observe.Bucket{LESeconds: math.Inf(1), Count: l.Count})
	}
	return l
}

// mergeBuckets sums on the union of the boundaries: a histogram without a boundary has there what it has at the next smaller one.
func mergeBuckets(deltas []histogramDelta) []observe.Bucket {
	var union []observe.Bucket
	for _, d := range deltas {
		union = append(union, d.buckets...)
	}
	slices.SortFunc(union, func(a, b observe.Bucket) int { return cmp.Compare(a.LESeconds, b.LESeconds) })
	union = slices.CompactFunc(union, func(a, b observe.Bucket) bool { return a.LESeconds == b.LESeconds })
	for i := range union {
		union[i].Count = 0
	}
	for _, d := range deltas {
		below, next := 0.0, 0
		for i := range union {
			for next < len(d.buckets) && d.buckets[next].LESeconds <= union[i].LESeconds {
				below = d.buckets[next].Count
				next++
			}
			union[i].Count += below
		}
	}
	return slices.Clip(union)
}
