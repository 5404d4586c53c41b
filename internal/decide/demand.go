package decide

import (
	"slices"
	"time"

	"gpustack.ai/model-deployment-scaler/internal/windows"
)

// What is kept of a role's demand: all that a window can reach, and the samples that the noise of a forecast is measured by.
const (
	demandSpan    = longestStableWindow
	demandSamples = noiseSamples + 2
	demandLimit   = 256 // spec "Predictor state"
)

// remembered is the demand with one more rate, in a new slice. One that is not after the newest is ignored (D19).
func remembered(demand windows.Average, rate windows.Rate) windows.Average {
	kept := make(windows.Average, len(demand), len(demand)+1)
	copy(kept, demand)
	return appended(kept, rate)
}

// appended is remembered for who alone holds the demand: the slice is changed in place.
func appended(demand windows.Average, rate windows.Rate) windows.Average {
	n := len(demand)
	if n > 0 && !rate.At.After(demand[n-1].At) {
		return demand
	}
	first := max(0, n+1-demandLimit)
	for first < n && n-first >= demandSamples && rate.At.Sub(demand[first].At) >= demandSpan {
		first++
	}
	return append(demand, rate)[first:]
}

// spans says that rates follow each other without a gap over the whole window (D54).
func spans(demand windows.Average, now time.Time, window, maxGap time.Duration) bool {
	later := now
	for _, rate := range slices.Backward(demand) {
		if later.Sub(rate.At) > maxGap {
			return false
		}
		later = rate.At.Add(-rate.Span)
		if now.Sub(later) >= window {
			return true
		}
	}
	return false
}

// begun is the demand with the spans that a status does not tell: one interval (D13), no longer than the time since the rate
// before. So a gap stays a gap, and a window with one is not taken for whole (D54).
func begun(demand windows.Average, interval time.Duration) windows.Average {
	if len(demand) == 0 || demand[0].Span > 0 {
		return demand
	}
	demand = slices.Clone(demand)
	for i := range demand {
		demand[i].Span = interval
		if i > 0 {
			demand[i].Span = max(0, min(interval, demand[i].At.Sub(demand[i-1].At)))
		}
	}
	return demand
}
