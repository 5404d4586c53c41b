package decide

import (
	"math"
	"time"

	"gpustack.ai/model-deployment-scaler/internal/windows"
)

// Parameters of the filter (D19).
const (
	firstVariance = 1000 // of level and trend after the first sample
	noiseSamples  = 48   // residuals that the observation noise is measured by
	rerunSamples  = 12   // until there are so many, the filter is run again with the noise known now
)

// filter is a causal Kalman filter with a local linear trend (D19): the state is the level of demand and its change per second;
// the process noise is added once per observation, not scaled by time.
type filter struct {
	qLevel, qTrend float64
	// noise is the least variance of an observation.
	noise float64
}

// update takes the newest sample of the history in. A gap longer than the horizon, or a state that is broken, starts the filter
// anew with that sample.
func (f filter) update(p Predictor, horizon time.Duration) Predictor {
	samples := complete(p.History)
	n := len(samples)
	if p.Samples > 0 && (n < 2 || samples[n-1].At.Sub(samples[n-2].At) > horizon || p.broken()) {
		p.Samples = 0
	}
	p.Samples++
	atHand := int(min(p.Samples, int64(n)))
	own := samples[n-atHand:] // of this run of the filter, as far as they are kept
	variance := max(f.noise, noiseOf(own))
	if p.Samples < rerunSamples && p.Samples == int64(atHand) {
		for i := range own {
			p = f.step(p, own[:i+1], variance)
		}
	} else {
		p = f.step(p, own, variance)
	}
	if p.broken() {
		p = f.step(p, own[len(own)-1:], variance)
		p.Samples = 1
	}
	return p
}

// step predicts from the sample before and corrects with the newest of samples; the first one is the level.
func (f filter) step(p Predictor, samples windows.Average, variance float64) Predictor {
	n := len(samples)
	demand := samples[n-1].PerSecond
	if n == 1 {
		p.Level, p.Trend = demand, 0
		p.P00, p.P01, p.P11 = firstVariance, 0, firstVariance
		return p
	}
	dt := samples[n-1].At.Sub(samples[n-2].At).Seconds()
	level := p.Level + dt*p.Trend
	p00 := p.P00 + 2*dt*p.P01 + dt*dt*p.P11 + f.qLevel
	p01 := p.P01 + dt*p.P11
	p11 := p.P11 + f.qTrend

	k0, k1 := p00/(p00+variance), p01/(p00+variance)
	off := demand - level
	p.Level, p.Trend = level+k0*off, p.Trend+k1*off
	// Joseph form: (I-KH) P (I-KH)' + K R K', which stays symmetric and positive whatever the rounding.
	p.P00 = (1-k0)*(1-k0)*p00 + k0*k0*variance
	p.P01 = (1-k0)*(p01-k1*p00) + k0*k1*variance
	p.P11 = p11 - 2*k1*p01 + k1*k1*p00 + k1*k1*variance
	return p
}

// noiseOf is the mean variance of the latest samples around the lines through their neighbours in time: zero for a clean ramp,
// the variance of the noise for noisy traffic (D19).
func noiseOf(samples windows.Average) float64 {
	sum, n := 0.0, 0
	for i := len(samples) - 2; i > 0 && n < noiseSamples; i-- {
		before, at, after := samples[i-1], samples[i], samples[i+1]
		w := at.At.Sub(before.At).Seconds() / after.At.Sub(before.At).Seconds()
		off := at.PerSecond - ((1-w)*before.PerSecond + w*after.PerSecond)
		sum += off * off / (1 + w*w + (1-w)*(1-w))
		n++
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// complete are the samples that are no lower bounds.
func complete(demand windows.Average) windows.Average {
	for i := range demand {
		if !demand[i].Partial {
			continue
		}
		whole := append(windows.Average(nil), demand[:i]...)
		for _, rate := range demand[i:] {
			if !rate.Partial {
				whole = append(whole, rate)
			}
		}
		return whole
	}
	return demand
}

// forecast is the demand after the horizon, in tokens per second, never below nothing.
func (p *Predictor) forecast(horizon time.Duration) float64 {
	return max(0, p.Level+p.Trend*horizon.Seconds())
}

// broken says that the state is not one that the filter can have left.
func (p *Predictor) broken() bool {
	for _, f := range []float64{p.Level, p.Trend, p.P00, p.P01, p.P11} {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return true
		}
	}
	return p.P00 < 0 || p.P11 < 0 || p.P01*p.P01 > p.P00*p.P11*(1+1e-6)+1e-9
}
