package windows

import (
	"slices"
	"time"
)

// Bounds of a History (D25): every entry of the last rawSpan is kept, older ones as one maximum per bucket up to historySpan,
// which is the longest stabilization window (spec "Resource").
const (
	historyLimit  = 256
	rawSpan       = 600 * time.Second
	historySpan   = 1800 * time.Second
	historyBucket = 10 * time.Second
)

// Recommendation is one entry of a History.
type Recommendation struct {
	At       time.Time
	Replicas int32
}

// History holds the recent recommendations of one role, oldest first. It is a value: Add returns a new one and leaves the old
// as it was, so that it can be stored and compared. At an interval of 5 s its 256 entries reach back 1800 s.
type History []Recommendation

// HistoryOf is the History of entries in whatever order, stored or made by a rebuild, which it takes over; those from the future
// of now are dropped (D44), and of two of the same time the later in the list counts.
func HistoryOf(now time.Time, entries []Recommendation) History {
	slices.SortStableFunc(entries, func(a, b Recommendation) int { return a.At.Compare(b.At) })
	h := History(entries[:0])
	for _, e := range entries {
		switch n := len(h); {
		case e.At.After(now):
		case n > 0 && h[n-1].At.Equal(e.At):
			h[n-1] = e
		default:
			h = append(h, e)
		}
	}
	if len(h) == 0 {
		return h
	}
	return h.thin(h[len(h)-1].At)
}

// Add appends a recommendation. A time before the newest entry's is ignored; an equal one replaces it.
func (h History) Add(at time.Time, replicas int32) History {
	next := make(History, len(h), len(h)+1)
	copy(next, h)
	if n := len(h); n > 0 && !at.After(h[n-1].At) {
		if at.Equal(h[n-1].At) {
			next[n-1].Replicas = replicas
		}
		return next
	}
	return append(next, Recommendation{At: at, Replicas: replicas}).thin(at)
}

// Spans says whether the history covers the whole window: going back from now, entries follow each other without a gap longer
// than maxGap until one is at least as old as the window (D24).
func (h History) Spans(now time.Time, window, maxGap time.Duration) bool {
	later := now
	for _, e := range slices.Backward(h) {
		if later.Sub(e.At) > maxGap {
			return false
		}
		if now.Sub(e.At) >= window {
			return true
		}
		later = e.At
	}
	return false
}

// Lowest is the smallest recommendation younger than the window; false when there is none.
func (h History) Lowest(now time.Time, window time.Duration) (int32, bool) {
	return h.fold(now, window, func(a, b int32) int32 { return min(a, b) })
}

// Highest is the largest recommendation younger than the window; false when there is none.
func (h History) Highest(now time.Time, window time.Duration) (int32, bool) {
	return h.fold(now, window, func(a, b int32) int32 { return max(a, b) })
}

// MaxGap is the longest gap that does not break a history: 3 intervals, at least 60 s (D24).
func MaxGap(interval time.Duration) time.Duration {
	return max(3*interval, 60*time.Second)
}

func (h History) fold(now time.Time, window time.Duration, pick func(a, b int32) int32) (int32, bool) {
	var found int32
	ok := false
	for _, e := range slices.Backward(h) {
		if now.Sub(e.At) >= window {
			break
		}
		if !ok {
			found, ok = e.Replicas, true
			continue
		}
		found = pick(found, e.Replicas)
	}
	return found, ok
}

// thin merges what is older than rawSpan into buckets and forgets what no window can need. Should entries come so fast that
// the limit is still exceeded, raw entries are merged too, from the oldest on: a longer reach is worth more than a finer one.
func (h History) thin(now time.Time) History {
	h = h.forget(now).merge(now, rawSpan)
	for young := rawSpan / 2; len(h) > historyLimit && young > 0; young -= historyBucket {
		h = h.merge(now, young)
	}
	return h[max(0, len(h)-historyLimit):]
}

// forget drops entries older than the longest window, except the newest of them, which shows that the window is spanned.
func (h History) forget(now time.Time) History {
	first := 0
	for i, e := range h {
		if now.Sub(e.At) < historySpan {
			break
		}
		first = i
	}
	return h[first:]
}

// merge leaves one entry per bucket among those older than young: the largest recommendation at the newest time, so that
// merging never lets a count shrink earlier.
func (h History) merge(now time.Time, young time.Duration) History {
	old, n := now.Add(-young), 0
	for i := range h {
		e := &h[i]
		if !e.At.Before(old) { // nor are those after it
			return h[:n+copy(h[n:], h[i:])]
		}
		if n > 0 && bucketOf(e.At) == bucketOf(h[n-1].At) {
			h[n-1] = Recommendation{At: e.At, Replicas: max(h[n-1].Replicas, e.Replicas)}
			continue
		}
		if n < i {
			h[n] = *e
		}
		n++
	}
	return h[:n]
}

func bucketOf(t time.Time) int64 { return t.Unix() / int64(historyBucket/time.Second) }
