package windows

import (
	"slices"
	"time"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// Rate is one pass's rate of a role.
type Rate struct {
	// At is the time of the pass.
	At time.Time
	// Span is the time the rate stands for: from the previous pass, at first one interval (D13).
	Span time.Duration
	// PerSecond is the rate, in tokens per second.
	PerSecond float64
	// Partial says that not every target was in the sum: a lower bound (D3).
	Partial bool
}

// Average holds the recent rates of one role, oldest first. A pass without a rate is not in it: a gap is not a zero (D13).
type Average []Rate

// Mean is the time-weighted mean over a window.
type Mean struct {
	// PerSecond is missing when no rate falls into the window.
	PerSecond observe.Value
	// Partial says that a partial rate is in it: it justifies growth only.
	Partial bool
	// Covered is how much of the window the rates stand for.
	Covered time.Duration
}

// Reaches says whether a rate falls into (now-window, now]: whether Over is known.
func (a Average) Reaches(now time.Time, window time.Duration) bool {
	start := now.Add(-window)
	for _, r := range slices.Backward(a) {
		if !r.At.After(start) {
			return false
		}
		if earliest(now, r.At).After(latest(start, r.At.Add(-r.Span))) {
			return true
		}
	}
	return false
}

// Over is the mean over (now-window, now]: every rate weighs as much as the part of its span that lies inside.
func (a Average) Over(now time.Time, window time.Duration) Mean {
	var m Mean
	var sum float64
	end, start := now, now.Add(-window)
	for _, r := range slices.Backward(a) {
		if !r.At.After(start) {
			break
		}
		from := latest(start, r.At.Add(-r.Span))
		weight := earliest(end, r.At).Sub(from)
		if weight <= 0 {
			continue
		}
		sum += r.PerSecond * weight.Seconds()
		m.Covered += weight
		m.Partial = m.Partial || r.Partial
		end = from
	}
	if m.Covered > 0 {
		m.PerSecond = observe.Known(sum / m.Covered.Seconds())
	}
	return m
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
