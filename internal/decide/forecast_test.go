package decide

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/windows"
)

var spec19 = filter{qLevel: 1, qTrend: 0.1, noise: 10}

const horizon = 300 * time.Second

// filtered runs the filter over samples so far apart.
func filtered(f filter, apart time.Duration, samples ...float64) (p Predictor) {
	for i, y := range samples {
		p.History = remembered(p.History, windows.Rate{At: noon.Add(time.Duration(i) * apart), Span: apart, PerSecond: y})
		p = f.update(p, horizon)
	}
	return p
}

func TestFilterFollowsACleanRamp(t *testing.T) {
	var ramp []float64
	for i := range 9 {
		ramp = append(ramp, 1000+150*float64(i))
	}
	p := filtered(spec19, 15*time.Second, ramp...)
	require.InDelta(t, 2200, p.Level, 0.01)
	require.InDelta(t, 10, p.Trend, 0.001)
	require.EqualValues(t, 9, p.Samples)
	require.InDelta(t, 5200, p.forecast(horizon), 0.4)
}

func TestFirstSampleIsTheLevel(t *testing.T) {
	p := filtered(spec19, 15*time.Second, 700)
	require.Equal(t, Predictor{Level: 700, P00: 1000, P11: 1000, Samples: 1, History: p.History}, p)
}

// The measured case of D19: with the noise fixed, the second sample alone would set the trend and forecast 52 149.
func TestAlternatingDemandIsNoTrend(t *testing.T) {
	p := filtered(spec19, 15*time.Second, 3000, 5000, 3000, 5000, 3000, 5000)
	require.InDelta(t, 9728, p.forecast(horizon), 1)
}

func TestNoiseIsMeasuredAroundTheLineThroughTheNeighbours(t *testing.T) {
	at := func(second int, y float64) windows.Rate {
		return windows.Rate{At: noon.Add(time.Duration(second) * time.Second), PerSecond: y}
	}
	tests := []struct {
		name    string
		samples windows.Average
		want    float64
	}{
		{"two samples say nothing", windows.Average{at(0, 1), at(15, 9)}, 0},
		{"a clean ramp has none", windows.Average{at(0, 1), at(15, 2), at(30, 3)}, 0},
		{"also when it is sampled unevenly", windows.Average{at(0, 0), at(10, 10), at(40, 40)}, 0},
		{"with equal spacing it is the second difference squared over six", windows.Average{at(0, 0), at(15, 6), at(30, 0)}, 24},
		{"uneven spacing weighs the neighbours", windows.Average{at(0, 0), at(10, 0), at(40, 40)}, 100 / (1 + 0.0625 + 0.5625)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.InDelta(t, tt.want, noiseOf(tt.samples), 1e-9) })
	}
	var long windows.Average
	for i := range 60 {
		y := 0.0
		if i < 10 {
			y = float64(i % 2 * 1000)
		}
		long = append(long, at(15*i, y))
	}
	require.Zero(t, noiseOf(long), "the latest 48 count")
}

func TestFilterStartsAnew(t *testing.T) {
	ramp := []float64{1000, 1150, 1300, 1450}
	t.Run("after a gap longer than the horizon", func(t *testing.T) {
		p := filtered(spec19, 15*time.Second, ramp...)
		p.History = remembered(p.History, windows.Rate{At: noon.Add(46 * time.Second).Add(horizon), PerSecond: 77})
		p = spec19.update(p, horizon)
		require.EqualValues(t, 1, p.Samples)
		require.InDelta(t, 77, p.Level, 0)
	})
	t.Run("but not after one as long", func(t *testing.T) {
		p := filtered(spec19, 15*time.Second, ramp...)
		p.History = remembered(p.History, windows.Rate{At: noon.Add(45 * time.Second).Add(horizon), PerSecond: 77})
		require.EqualValues(t, 5, spec19.update(p, horizon).Samples)
	})
	for name, broken := range map[string]func(*Predictor){
		"a level that is no number": func(p *Predictor) { p.Level = math.NaN() },
		"an infinite trend":         func(p *Predictor) { p.Trend = math.Inf(-1) },
		"a negative variance":       func(p *Predictor) { p.P00 = -1 },
		"an impossible covariance":  func(p *Predictor) { p.P01 = 1e9 },
	} {
		t.Run("from "+name, func(t *testing.T) {
			p := filtered(spec19, 15*time.Second, ramp...)
			p.Samples = 20 // stored: not all of them are at hand
			broken(&p)
			p.History = remembered(p.History, windows.Rate{At: noon.Add(60 * time.Second), PerSecond: 1600})
			p = spec19.update(p, horizon)
			require.EqualValues(t, 1, p.Samples)
			require.InDelta(t, 1600, p.Level, 0)
		})
	}
	t.Run("late and repeated samples are ignored", func(t *testing.T) {
		p := filtered(spec19, 15*time.Second, ramp...)
		require.Equal(t, p.History, remembered(p.History, windows.Rate{At: noon.Add(45 * time.Second), PerSecond: 9}))
		require.Equal(t, p.History, remembered(p.History, windows.Rate{At: noon, PerSecond: 9}))
	})
}

func TestForecastIsNeverNegative(t *testing.T) {
	p := filtered(spec19, 15*time.Second, 8000, 6400, 4800, 3200, 1600)
	require.Negative(t, p.Trend)
	require.Zero(t, p.forecast(horizon))
}

func TestFilterStaysSoundOnAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := filter{qLevel: rapid.Float64Range(1e-6, 1e6).Draw(t, "q level"), qTrend: rapid.Float64Range(1e-6, 1e6).Draw(t, "q trend"),
			noise: rapid.Float64Range(1e-6, 1e6).Draw(t, "noise")}
		var p Predictor
		at := noon
		for range rapid.IntRange(1, 80).Draw(t, "samples") {
			at = at.Add(time.Duration(rapid.IntRange(1, 600_000).Draw(t, "ms")) * time.Millisecond)
			p.History = remembered(p.History, windows.Rate{At: at, PerSecond: rapid.Float64Range(0, largest).Draw(t, "demand")})
			p = f.update(p, horizon)
			require.False(t, p.broken(), "%+v", p)
			require.GreaterOrEqual(t, p.forecast(horizon), 0.0)
			require.LessOrEqual(t, len(p.History), demandLimit)
		}
	})
}

func TestHistoryHoldsWhatWindowsAndNoiseNeed(t *testing.T) {
	for _, apart := range []time.Duration{5 * time.Second, 15 * time.Second, 300 * time.Second} {
		var demand windows.Average
		for i := range 1000 {
			demand = remembered(demand, windows.Rate{At: noon.Add(time.Duration(i) * apart), Span: apart})
		}
		require.LessOrEqual(t, len(demand), 256)
		require.GreaterOrEqual(t, len(demand), demandSamples)
		require.True(t, spans(demand, demand[len(demand)-1].At, demandSpan, windows.MaxGap(apart)))
	}
}

// predicted is a role with capacity 100 whose predictor is warm.
func predicted(replicas int32, steady float64) *setting {
	s := tokens(observe.Server, replicas, steady)
	s.Scaler.Spec.Algorithm = workerv1.Algorithm{Type: workerv1.AlgorithmPredictive, Predictive: &workerv1.Predictive{
		TokenThroughput:               *s.Scaler.Spec.Algorithm.TokenThroughput,
		ServerTokenCapacityPerReplica: quantityOf("100"),
	}}
	p := &s.State.Predictors[0]
	p.Level, p.P00, p.P11, p.Samples = steady, 1, 1, 40
	return s
}

func TestPredictiveTakesTheLargerOfForecastAndWindows(t *testing.T) {
	s := predicted(4, 300)
	s.State.Predictors[0].Trend = 1
	s.observe("server", func(o *observe.RoleObservation) { o.Generation = observe.Known(315) })
	d := Plan(s.Input)
	require.Equal(t, ReasonPredictive, d.Trace["server"][0].Rule)
	require.Equal(t, int32(7), d.State.role("server").Raw, "315 + 300 s x 1")

	s = predicted(4, 300)
	s.State.Predictors[0].Level, s.State.Predictors[0].Trend = 300, -3
	require.GreaterOrEqual(t, Plan(s.Input).State.role("server").Raw, int32(3), "never under the windows")
}

func TestPredictorWarmsUp(t *testing.T) {
	s := predicted(4, 300)
	s.State.Predictors[0].Samples, s.State.Predictors[0].Trend = 4, 5
	d := Plan(s.Input)
	require.Equal(t, ReasonPredictorWarmingUp, d.Trace["server"][0].Rule)
	require.Equal(t, int32(3), d.State.role("server").Raw)
	require.Equal(t, map[string]int32{"server": 3}, vectorOf(d), "the fallback shrinks without the test of 80 %")

	s.Scaler.Spec.Algorithm.Predictive.MinPoints = 5
	require.Equal(t, ReasonConsolidationHold, Plan(s.Input).Trace["server"][0].Rule, "the fifth sample counts")
}

func TestConsolidationLeavesRoom(t *testing.T) {
	tests := []struct {
		name   string
		demand float64
		shrink bool
	}{
		{"three replicas at 80 % are enough", 240, true},
		{"any more is not", 241, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := Plan(predicted(4, tt.demand).Input)
			require.Equal(t, int32(3), d.State.role("server").Raw)
			require.Equal(t, tt.shrink, d.Commit != nil)
			if !tt.shrink {
				require.Equal(t, ReasonConsolidationHold, d.State.role("server").Reason)
			}
		})
	}
}

func TestPredictiveAddsOneInABurstOnly(t *testing.T) {
	s := predicted(4, 300)
	s.Scaler.Spec.Algorithm.Predictive.TokenThroughput.PanicThreshold = quantityOf("0.75")
	require.Equal(t, int32(5), Plan(s.Input).State.role("server").Raw)
	s.Scaler.Spec.Algorithm.Predictive.TokenThroughput.PanicThreshold = quantityOf("0.76")
	s.State.Roles[0].PanicUntil = noon.Add(time.Minute)
	got := Plan(s.Input).State.role("server")
	require.Equal(t, int32(4), got.Raw, "not through the tail of the panic")
	require.Equal(t, ReasonPanic, got.Reason)
}

func TestPartialDemandDoesNotReachTheFilter(t *testing.T) {
	s := predicted(4, 300)
	s.observe("server", func(o *observe.RoleObservation) {
		o.Generation, o.Coverage.Answered, o.Coverage.Rated = observe.Known(75), 1, 1
	})
	p := Plan(s.Input).State.predictor("server")
	require.EqualValues(t, 40, p.Samples)
	require.True(t, p.History[len(p.History)-1].Partial)
	stored := p.status().History
	require.True(t, stored[len(stored)-1].Partial)
}
