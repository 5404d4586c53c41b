package windows

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func historyAt(seconds ...int) History {
	var h History
	for _, s := range seconds {
		h = h.Add(at(s), int32(s+1))
	}
	return h
}

func TestHistorySpans(t *testing.T) {
	tests := []struct {
		name    string
		entries []int
		now     int
		window  time.Duration
		want    bool
	}{
		{"nothing spans nothing", nil, 0, 0, false},
		{"one entry spans the empty window", []int{0}, 0, 0, true},
		{"an entry exactly as old as the window spans it", []int{0, 30, 60}, 60, time.Minute, true},
		{"an entry a second younger does not", []int{1, 30, 60}, 60, time.Minute, false},
		{"a gap of sixty seconds is allowed", []int{0, 60, 120}, 120, 2 * time.Minute, true},
		{"a longer gap inside the window breaks it", []int{0, 61, 120}, 120, 2 * time.Minute, false},
		{"an entry behind a gap does not count", []int{0, 100, 120}, 120, 2 * time.Minute, false},
		{"a gap before the window does not matter", []int{0, 100, 120, 150, 180, 210}, 210, 100 * time.Second, true},
		{"silence until now is a gap too", []int{0, 30, 60}, 121, time.Minute, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, historyAt(tt.entries...).Spans(at(tt.now), tt.window, MaxGap(15*time.Second)))
		})
	}
}

func TestMaxGapIsThreeIntervalsAndAtLeastAMinute(t *testing.T) {
	require.Equal(t, time.Minute, MaxGap(5*time.Second))
	require.Equal(t, 900*time.Second, MaxGap(300*time.Second))
}

func TestHistoryExtremesCountEntriesYoungerThanTheWindow(t *testing.T) {
	h := History{}.Add(at(0), 1).Add(at(30), 9).Add(at(60), 4).Add(at(90), 6)
	lowest, ok := h.Lowest(at(90), 90*time.Second)
	require.True(t, ok)
	require.EqualValues(t, 4, lowest)
	highest, ok := h.Highest(at(90), 61*time.Second)
	require.True(t, ok)
	require.EqualValues(t, 9, highest)
	highest, _ = h.Highest(at(90), 60*time.Second)
	require.EqualValues(t, 6, highest, "an entry as old as the window has left it")
	_, ok = h.Highest(at(300), time.Minute)
	require.False(t, ok)
}

func TestHistoryIgnoresLateEntriesAndReplacesARepeatedOne(t *testing.T) {
	h := History{}.Add(at(0), 1).Add(at(30), 2)
	require.Equal(t, h, h.Add(at(15), 7))
	require.Equal(t, History{{at(0), 1}, {at(30), 5}}, h.Add(at(30), 5))
	require.Equal(t, History{{at(0), 1}, {at(30), 2}}, h, "the old value stays as it was")
}

func TestStoredHistoryIsSortedAndNeverFromTheFuture(t *testing.T) {
	h := HistoryOf(at(60), []Recommendation{{at(60), 3}, {at(0), 1}, {at(30), 7}, {at(61), 9}, {at(30), 2}})
	require.Equal(t, History{{at(0), 1}, {at(30), 2}, {at(60), 3}}, h, "the later of two of the same time counts")
	require.Empty(t, HistoryOf(at(60), []Recommendation{{at(61), 9}}))
}

// The longest window must be spanned at the shortest interval with 256 entries (D25).
func TestHistoryReachesBackTheLongestWindowAtEveryInterval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		interval := time.Duration(rapid.IntRange(5000, 300000).Draw(t, "interval in ms")) * time.Millisecond
		first := start.Add(time.Duration(rapid.IntRange(0, 20000).Draw(t, "phase in ms")) * time.Millisecond)
		var h History
		now := first
		for ; now.Sub(first) <= historySpan+2*interval; now = now.Add(interval) {
			h = h.Add(now, int32(len(h)%9+1))
			require.LessOrEqual(t, len(h), historyLimit)
		}
		require.True(t, h.Spans(now.Add(-interval), historySpan, MaxGap(interval)))
	})
}

// Whatever is merged, the highest recommendation of a window is never forgotten while it counts, and the lowest of the up
// window (at most 600 s) is exact.
func TestHistoryExtremesAgreeWithAnUnboundedHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h History
		var all []Recommendation
		now := start
		for range rapid.IntRange(1, 150).Draw(t, "passes") {
			now = now.Add(time.Duration(rapid.IntRange(5000, 40000).Draw(t, "step in ms")) * time.Millisecond)
			r := Recommendation{At: now, Replicas: int32(rapid.IntRange(1, 50).Draw(t, "replicas"))}
			h, all = h.Add(r.At, r.Replicas), append(all, r)
		}
		down := time.Duration(rapid.IntRange(1, 1800).Draw(t, "down window")) * time.Second
		highest, ok := h.Highest(now, down)
		require.True(t, ok)
		want, _ := History(all).Highest(now, down)
		require.GreaterOrEqual(t, highest, want)
		up := time.Duration(rapid.IntRange(1, 600).Draw(t, "up window")) * time.Second
		lowest, _ := h.Lowest(now, up)
		want, _ = History(all).Lowest(now, up)
		require.Equal(t, want, lowest)
	})
}

func TestHistoryStaysBoundedWhenEntriesComeTooFast(t *testing.T) {
	var h History
	for i := range 1900 {
		h = h.Add(start.Add(time.Duration(i)*time.Second), int32(i%7+1))
		require.LessOrEqual(t, len(h), historyLimit)
	}
	now := h[len(h)-1].At
	require.True(t, h.Spans(now, historySpan, MaxGap(5*time.Second)))
	require.True(t, slices.IsSortedFunc(h, func(a, b Recommendation) int { return a.At.Compare(b.At) }))
}
