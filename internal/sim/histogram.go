package sim

import (
	"math"
	"sort"
)

// Histogram counts observations at or below ascending bounds, as the engines do.
type Histogram struct {
	Bounds []float64 // upper bounds, without +Inf
	Counts []uint64  // observations of each bound alone, +Inf last
	Sum    float64
}

func newHistogram(bounds []float64) *Histogram {
	return &Histogram{Bounds: bounds, Counts: make([]uint64, len(bounds)+1)}
}

// Observe adds n observations of one value.
func (h *Histogram) Observe(value float64, n uint64) {
	if n == 0 {
		return
	}
	h.Counts[sort.SearchFloat64s(h.Bounds, value)] += n
	h.Sum += value * float64(n)
}

// Total is the number of observations.
func (h *Histogram) Total() uint64 {
	var total uint64
	for _, n := range h.Counts {
		total += n
	}
	return total
}

// bound is the upper bound of a bucket.
func (h *Histogram) bound(n int) float64 {
	if n == len(h.Bounds) {
		return math.Inf(1)
	}
	return h.Bounds[n]
}

// refill puts the observations of another histogram into h, as if each had been at its bound times a factor.
func refill(h, from *Histogram, factor float64) {
	for n, count := range from.Counts {
		h.Observe(factor*from.bound(n), count)
	}
	h.Sum = factor * from.Sum
}

// meter observes a value at a continuous rate: whole observations are counted, the rest is carried over.
type meter struct {
	histogram *Histogram
	carry     float64
}

func (m *meter) observe(value, n float64) {
	m.carry += n
	whole := math.Floor(m.carry + nearly)
	m.histogram.Observe(value, uint64(whole))
	m.carry -= whole
}
