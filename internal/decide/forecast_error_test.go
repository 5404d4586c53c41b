package decide

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/internal/sim"
	"gpustack.ai/model-deployment-scaler/internal/windows"
)

var traces = flag.String("traces", "../../../shared/traces", "directory of recorded traffic to forecast: CSV files of time, prompt tokens, "+
	"output tokens, or JSON lines with timestamp in milliseconds, input_length and output_length")

// forecasts of demand a horizon ahead, from the samples until now.
var forecasts = []struct {
	name  string
	ahead func(demand windows.Average) []float64 // by sample
}{
	{"last value", func(demand windows.Average) []float64 {
		return each(demand, func(i int) float64 { return demand[i].PerSecond })
	}},
	{"window of 180 s", func(demand windows.Average) []float64 {
		return each(demand, func(i int) float64 {
			return demand[max(0, i-50):i+1].Over(demand[i].At, 180*time.Second).PerSecond.Float64
		})
	}},
	{"fixed noise", func(demand windows.Average) []float64 {
		var p Predictor
		return each(demand, func(i int) float64 {
			p = spec19.step(p, demand[:i+1], spec19.noise)
			return p.forecast(horizon)
		})
	}},
	{"adaptive noise", func(demand windows.Average) []float64 {
		var p Predictor
		return each(demand, func(i int) float64 {
			p.History = remembered(p.History, demand[i])
			p = spec19.update(p, horizon)
			return p.forecast(horizon)
		})
	}},
}

func each(demand windows.Average, value func(int) float64) []float64 {
	values := make([]float64, len(demand))
	for i := range values {
		values[i] = value(i)
	}
	return values
}

// errorOf a forecast once the predictor is warm, relative to the mean demand: root mean square, and what was missing on average.
func errorOf(demand windows.Average, ahead []float64) (rms, short float64) {
	steps, n, mean := int(horizon/interval), 0.0, 0.0
	for i := defaultMinPoints - 1; i+steps < len(demand); i++ {
		actual := demand[i+steps].PerSecond
		off := actual - ahead[i]
		rms, short, mean, n = rms+off*off, short+max(0, off), mean+actual, n+1
	}
	return math.Sqrt(rms/n) / (mean / n), short / mean
}

// demandOf traffic is what planning passes an interval apart measure.
func demandOf(traffic sim.Trace) (demand windows.Average) {
	for at := interval; at.Seconds() <= traffic[len(traffic)-1].Born; at += interval {
		tokens := 0
		for _, r := range traffic.Arrivals(nil, (at - interval).Seconds(), at.Seconds()) {
			tokens += r.Prompt + r.Output
		}
		demand = append(demand, windows.Rate{At: noon.Add(at), Span: interval, PerSecond: float64(tokens) / interval.Seconds()})
	}
	return demand
}

// synthetic demand of an hour, the same in every run: noise around a level, and a climb from a fifth to the whole in between.
func synthetic(noise float64, climbs bool) (demand windows.Average) {
	random := rand.New(rand.NewPCG(7, 11))
	for i := range 240 {
		level := 5000.0
		if climbs {
			level *= 0.2 + 0.8*min(1, max(0, float64(i-60)/120))
		}
		demand = append(demand, windows.Rate{At: noon.Add(time.Duration(i) * interval), Span: interval, PerSecond: max(0, level*(1+noise*random.NormFloat64()))})
	}
	return demand
}

func TestAdaptiveNoiseForecastsNoisyTraffic(t *testing.T) {
	measure := func(demand windows.Average) map[string][2]float64 {
		found := map[string][2]float64{}
		for _, f := range forecasts {
			rms, short := errorOf(demand, f.ahead(demand))
			found[f.name] = [2]float64{rms, short}
		}
		return found
	}
	steady := measure(synthetic(0.3, false))
	require.Less(t, 5*steady["adaptive noise"][0], steady["fixed noise"][0], "noise is no trend")
	require.Less(t, steady["adaptive noise"][0], steady["last value"][0])
	climb := measure(synthetic(0.1, true))
	require.Less(t, 2*climb["adaptive noise"][1], climb["window of 180 s"][1], "a climb is seen in time")
	require.Less(t, climb["adaptive noise"][0], climb["fixed noise"][0])
}

// Forecasts five minutes ahead of recorded and synthetic traffic: make bench-forecast.
func BenchmarkForecast(b *testing.B) {
	demands := map[string]windows.Average{"steady, noise of 30 %": synthetic(0.3, false), "climbing, noise of 10 %": synthetic(0.1, true)}
	names := []string{"steady, noise of 30 %", "climbing, noise of 10 %"}
	files, err := filepath.Glob(filepath.Join(*traces, "*"))
	require.NoError(b, err)
	for _, file := range files {
		if trace := readTrace(b, file); len(trace) > 0 {
			name := filepath.Base(file)
			demands[name], names = demandOf(trace), append(names, name)
		}
	}
	if len(names) == 2 {
		fmt.Printf("No recorded traffic in %s: only synthetic traffic is forecast.\n", *traces) // the log of a benchmark with parts is not shown
	}
	for _, name := range names {
		for _, f := range forecasts {
			b.Run(name+"/"+f.name, func(b *testing.B) {
				var rms, short float64
				for b.Loop() {
					rms, short = errorOf(demands[name], f.ahead(demands[name]))
				}
				b.ReportMetric(rms, "rmse/mean")
				b.ReportMetric(short, "short/mean")
			})
		}
	}
}

// readTrace reads recorded traffic; nothing of a file of another kind.
func readTrace(tb testing.TB, file string) (trace sim.Trace) {
	tb.Helper()
	data, err := os.ReadFile(file)
	require.NoError(tb, err)
	switch filepath.Ext(file) {
	case ".csv":
		trace, err = sim.ReadTrace(strings.NewReader(string(data)))
		require.NoError(tb, err)
	case ".jsonl":
		for lines := json.NewDecoder(strings.NewReader(string(data))); lines.More(); {
			var line struct {
				Timestamp    float64 `json:"timestamp"`
				InputLength  int     `json:"input_length"`
				OutputLength int     `json:"output_length"`
			}
			require.NoError(tb, lines.Decode(&line))
			trace = append(trace, sim.Request{Born: line.Timestamp / 1000, Prompt: line.InputLength, Output: line.OutputLength})
		}
	}
	return trace
}
