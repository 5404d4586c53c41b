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

// within lists what of h ended within span before now.
func within(h history, key observe.RoleKey, span time.Duration, now time.Time) (out []observe.RoleObservation) {
	for i := range h {
		if age := now.Sub(h[i].end); age <= span {
			out = append(out, h[i].observation(key, age))
		}
	}
	return out
}

func TestHistoryReachesBackThirtyMinutesAtTheShortestInterval(t *testing.T) {
	var h history
	for s := 0; s <= 4000; s += 5 {
		h.add(observedAt(s, float64(s%10)))
		require.LessOrEqual(t, len(h), replayLimit)
	}
	now := start.Add(4000 * time.Second)
	all := within(h, observe.RoleKey{}, replaySpan, now)
	require.InDelta(t, replaySpan.Seconds(), all[0].Age.Seconds(), 10)
	require.Len(t, within(h, observe.RoleKey{}, rawSpan, now), 121, "the last ten minutes are kept whole")
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
	require.Len(t, within(h, observe.RoleKey{}, replaySpan, start.Add(1800*time.Second)), 121)
	require.Len(t, within(h, observe.RoleKey{}, time.Minute, start.Add(1800*time.Second)), 5)
}

func TestAReplayedObservationIsTheOneThatWasMadeWithoutItsDetails(t *testing.T) {
	key := observe.RoleKey{Namespace: "ns", Deployment: "d", UID: "u", Role: "r"}
	made := observe.RoleObservation{
		Key: key, Kind: observe.Decode, Engine: observe.SGLang, Sequence: 7, Start: start, End: start.Add(time.Second), Interval: 15 * time.Second, Span: 16 * time.Second,
		Coverage: observe.Coverage{ReadyReplicas: 5, Targets: 4, Selected: 3, Answered: 2, Rated: 1}, State: observe.Fresh,
		Running: observe.Known(1), Waiting: observe.Known(2), RawPrompt: observe.Known(3), Generation: observe.Known(4), KVCacheUsage: observe.Known(0),
		TTFT: observe.Latency{Milliseconds: 400, Source: observe.FromBucket, Count: 10, SumSeconds: 3},
		ITL:  observe.Latency{Milliseconds: 20, Source: observe.FromMean, Count: 100, SumSeconds: 2},
	}
	var h history
	h.add(made)
	other := made
	other.End, other.Prompt, other.State = made.End.Add(15*time.Second), observe.Known(9), observe.Idle
	h.add(other)
	replayed := within(h, key, time.Minute, other.End)
	made.Age, made.Replayed = 15*time.Second, true
	other.Start, other.Replayed = start, true
	require.Equal(t, []observe.RoleObservation{made, other}, replayed)
}

func TestSteadyObservationsShareWhatTheyHaveInCommon(t *testing.T) {
	var h history
	for s := range 5 {
		h.add(observedAt(15*s, float64(s)))
	}
	for _, p := range h {
		require.Same(t, h[0].outline, p.outline)
	}
}
