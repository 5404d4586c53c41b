package windows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

func rateAt(second int, span time.Duration, perSecond float64) Rate {
	return Rate{At: at(second), Span: span, PerSecond: perSecond}
}

func TestAverageOver(t *testing.T) {
	const span = 15 * time.Second
	tests := []struct {
		name   string
		rates  Average
		now    int
		window time.Duration
		want   observe.Value
	}{
		{"no rate is no average", nil, 0, time.Minute, observe.Value{}},
		{"it exists from the first rate on", Average{rateAt(15, span, 100)}, 15, time.Minute, observe.Known(100)},
		{"equal spans weigh the same", Average{rateAt(15, span, 100), rateAt(30, span, 300)}, 30, time.Minute, observe.Known(200)},
		{"a longer span weighs more", Average{rateAt(15, span, 100), rateAt(60, 45*time.Second, 300)}, 60, time.Minute, observe.Known(250)},
		{"a span is clipped to the window", Average{rateAt(15, span, 100), rateAt(30, span, 300)}, 30, 20 * time.Second, observe.Known(250)},
		{"a window shorter than the interval is the latest rate", Average{rateAt(15, span, 100), rateAt(30, span, 300)}, 30, 10 * time.Second, observe.Known(300)},
		{"a gap is not a zero", Average{rateAt(15, span, 100), rateAt(150, span, 300)}, 150, 150 * time.Second, observe.Known(200)},
		{"a rate as old as the window has left it", Average{rateAt(15, span, 100)}, 75, time.Minute, observe.Value{}},
		{"overlapping spans count once", Average{rateAt(15, span, 100), rateAt(30, 30*time.Second, 300)}, 30, 30 * time.Second, observe.Known(300)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.rates.Over(at(tt.now), tt.window).PerSecond
			require.Equal(t, tt.want.Valid, got.Valid)
			require.Equal(t, tt.want.Valid, tt.rates.Reaches(at(tt.now), tt.window))
			require.InDelta(t, tt.want.Float64, got.Float64, 1e-9)
		})
	}
}

func TestAPartialRateMakesTheMeanPartialUntilItLeavesTheWindow(t *testing.T) {
	a := Average{{At: at(15), Span: 15 * time.Second, PerSecond: 1, Partial: true}, rateAt(30, 15*time.Second, 1)}
	require.True(t, a.Over(at(30), 30*time.Second).Partial)
	require.False(t, a.Over(at(30), 15*time.Second).Partial)
	require.Equal(t, 30*time.Second, a.Over(at(30), time.Minute).Covered)
}

func TestAverageStaysBetweenItsRates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a Average
		now := start
		for range rapid.IntRange(1, 150).Draw(t, "passes") {
			step := time.Duration(rapid.IntRange(1, 30000).Draw(t, "step in ms")) * time.Millisecond
			now = now.Add(step)
			a = append(a, Rate{At: now, Span: step, PerSecond: rapid.Float64Range(10, 1000).Draw(t, "rate")})
		}
		window := time.Duration(rapid.IntRange(10, 600).Draw(t, "window")) * time.Second
		m := a.Over(now, window)
		require.True(t, m.PerSecond.Valid)
		require.True(t, a.Reaches(now, window))
		require.GreaterOrEqual(t, m.PerSecond.Float64, 10-1e-9)
		require.LessOrEqual(t, m.PerSecond.Float64, 1000+1e-9)
		require.LessOrEqual(t, m.Covered, window)
	})
}
