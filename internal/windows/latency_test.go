package windows

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// cumulative makes buckets of alternating boundaries and counts.
func cumulative(pairs ...float64) []observe.Bucket {
	var out []observe.Bucket
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, observe.Bucket{LESeconds: pairs[i], Count: pairs[i+1]})
	}
	return out
}

func TestLatency(t *testing.T) {
	known := observe.Known
	tests := []struct {
		name   string
		deltas []histogramDelta
		want   float64
		source observe.LatencySource
	}{
		{"no observation at all", nil, 0, ""},
		{"the boundary that covers 95 % exactly", []histogramDelta{{100, known(20), cumulative(0.1, 90, 0.25, 95, 0.5, 99)}}, 250, observe.FromBucket},
		{"just under 95 % is not covered", []histogramDelta{{100, known(20), cumulative(0.1, 90, 0.25, 94, 0.5, 99)}}, 500, observe.FromBucket},
		{"everything in the first bucket is its boundary", []histogramDelta{{208, known(0.02), cumulative(0.001, 208, 0.005, 208)}}, 1, observe.FromBucket},
		{"a percentile in the infinite bucket is the mean", []histogramDelta{{100, known(150), cumulative(0.5, 50, 1, 80, 10, 90)}}, 1500, observe.FromMean},
		{"no buckets is the mean", []histogramDelta{{100, known(150), nil}}, 1500, observe.FromMean},
		{"neither buckets nor sum is missing", []histogramDelta{{100, observe.Value{}, nil}}, 0, ""},
		{"a sum that one Pod lacks is no mean of all", []histogramDelta{{100, observe.Value{}, nil}, {100, known(150), nil}}, 0, ""},
		{"equal boundaries add up", []histogramDelta{{10, known(1), cumulative(0.1, 10, 1, 10)}, {10, known(5), cumulative(0.1, 0, 1, 10)}}, 1000, observe.FromBucket},
		{
			"a boundary that one Pod lacks has there what the next smaller one has",
			[]histogramDelta{{100, known(1), cumulative(0.1, 100)}, {1, known(1), cumulative(0.2, 1)}}, 100, observe.FromBucket,
		},
		{
			"different boundaries meet at the union",
			[]histogramDelta{{10, known(1), cumulative(0.1, 10)}, {10, known(1), cumulative(0.05, 5, 0.2, 10)}}, 200, observe.FromBucket,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := latencyOf(tt.deltas)
			require.Equal(t, tt.source, l.Source)
			require.InDelta(t, tt.want, l.Milliseconds, 1e-9)
		})
	}
}

func TestMergedBucketsEndWithTheInfiniteOne(t *testing.T) {
	l := latencyOf([]histogramDelta{{10, observe.Known(1), cumulative(0.1, 8)}, {10, observe.Known(2), cumulative(0.05, 5, 0.2, 9)}})
	require.Equal(t, cumulative(0.05, 5, 0.1, 13, 0.2, 17, math.Inf(1), 20), l.Buckets)
	require.InDelta(t, 20, l.Count, 0)
	require.InDelta(t, 3, l.SumSeconds, 0)
}

func TestALatencyWithTooManyBoundariesComesWithoutThem(t *testing.T) {
	d := histogramDelta{count: 1, sum: observe.Known(1)}
	for i := range maxBuckets + 1 {
		d.buckets = append(d.buckets, observe.Bucket{LESeconds: float64(i + 1), Count: 1})
	}
	l := latencyOf([]histogramDelta{d})
	require.Empty(t, l.Buckets)
	require.InDelta(t, 1000, l.Milliseconds, 0)
}

// histogramAt makes a sample with one ITL histogram.
func histogramAt(engine observe.Engine, count, sum float64, buckets ...float64) *observe.Sample {
	s := sampleOf(engine, 1, 0, nil)
	s.ITL = []observe.Histogram{{Group: 1, Count: count, SumSeconds: observe.Known(sum), Buckets: cumulative(buckets...)}}
	return &s
}

func TestLatencyIsThatOfThisPassAlone(t *testing.T) {
	w := newWorld(t, observe.Server, 1)
	w.pass(histogramAt(observe.VLLM, 1000, 5000, 0.05, 0, 0.1, 0))
	require.InDelta(t, 50, w.pass(histogramAt(observe.VLLM, 1100, 5004, 0.05, 100, 0.1, 100)).ITL.Milliseconds, 1e-9)
	require.Equal(t, observe.Latency{}, w.pass(histogramAt(observe.VLLM, 1100, 5004, 0.05, 100, 0.1, 100)).ITL, "no new observation, no latency")
}

func TestAHistogramThatAppearsCountsFromZero(t *testing.T) {
	w := newWorld(t, observe.Server, 1)
	w.pass(ptr(sampleOf(observe.SGLang, 1, 0, nil)))
	o := w.pass(histogramAt(observe.SGLang, 10, 1, 0.05, 10))
	require.InDelta(t, 50, o.ITL.Milliseconds, 1e-9)
	require.InDelta(t, 10, o.ITL.Count, 0)
}

func TestTheInterTokenLatencyOfAnSGLangPrefillEngineIsIgnored(t *testing.T) {
	for engine, known := range map[observe.Engine]bool{observe.SGLang: false, observe.VLLM: true} {
		w := newWorld(t, observe.Prefill, 1)
		w.pass(histogramAt(engine, 0, 0, 0.05, 0))
		require.Equal(t, known, w.pass(histogramAt(engine, 10, 1, 0.05, 10)).ITL.Value().Valid, engine)
	}
}
