package sampler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

func observedAt(seconds int, running float64) observe.RoleObservation {
	return observe.RoleObservation{
		Sequence: uint64(seconds) + 1, End: start.Add(time.Duration(seconds) * time.Second), Running: observe.Known(running),
		ITL: observe.Latency{Buckets: make([]observe.Bucket, 3)}, Coverage: observe.Coverage{Uncovered: make([]observe.UncoveredPod, 2)},
	}
}

func TestHistoryReachesBackThirtyMinutesAtTheShortestInterval(t *testing.T) {
	var h history
	for s := 0; s <= 4000; s += 5 {
		h.add(observedAt(s, float64(s%10)))
		require.LessOrEqual(t, len(h), replayLimit)
	}
	now := start.Add(4000 * time.Second)
	all := h.within(replaySpan, now)
	require.InDelta(t, replaySpan.Seconds(), all[0].Age.Seconds(), 10)
	require.Len(t, h.within(rawSpan, now), 121, "the last ten minutes are kept whole")
	for i, o := range all {
		require.True(t, o.Replayed)
		require.Nil(t, o.ITL.Buckets)
		require.Nil(t, o.Coverage.Uncovered)
		require.Equal(t, now.Sub(o.End), o.Age)
		if o.Age > rawSpan+replayBucket {
			require.Equal(t, observe.Known(5), o.Running, "the busier of the two of a bucket stays")
		}
		if i > 0 {
			require.True(t, all[i-1].End.Before(o.End))
		}
	}
}

func TestHistoryAtOrdinaryIntervalsIsNotThinned(t *testing.T) {
	var h history
	for s := 0; s <= 1800; s += 15 {
		h.add(observedAt(s, 1))
	}
	require.Len(t, h.within(replaySpan, start.Add(1800*time.Second)), 121)
	require.Len(t, h.within(time.Minute, start.Add(1800*time.Second)), 5)
}
