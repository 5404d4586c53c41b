package sim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestProfiles(t *testing.T) {
	for _, row := range []struct {
		name    string
		profile Profile
		within  [2]float64
		want    int
	}{
		{"constant traffic keeps its rate", Constant(4, 100, 10), [2]float64{10, 20}, 40},
		{"a ramp brings the mean of its ends", Ramp(0, 10, 60, 100, 10), [2]float64{0, 60}, 300},
		{"a ramp stays at its end", Ramp(0, 10, 60, 100, 10), [2]float64{60, 70}, 100},
		{"a burst is at its base before", Burst(1, 20, 30, 40, 100, 10), [2]float64{0, 30}, 30},
		{"a burst is at its peak between", Burst(1, 20, 30, 40, 100, 10), [2]float64{30, 40}, 200},
		{"a burst is at its base after", Burst(1, 20, 30, 40, 100, 10), [2]float64{40, 50}, 10},
		{"a day brings the mean of low and high", Day(2, 6, 240, 100, 10), [2]float64{0, 240}, 960},
		{"a second day is like the first", Day(2, 6, 240, 100, 10), [2]float64{240, 480}, 960},
		{"no points, no traffic", Profile{}, [2]float64{0, 100}, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.InDelta(t, row.want, len(row.profile.Arrivals(nil, row.within[0], row.within[1])), 1)
		})
	}
	require.InDelta(t, 6, Day(2, 6, 240, 100, 10).Rate(240+120), 1e-9)
	require.InDelta(t, 20, Burst(1, 20, 30, 40, 100, 10).Rate(35), 0)
}

func TestArrivalsDoNotDependOnHowTimeIsCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		profile := rapid.SampledFrom([]Profile{
			Constant(3, 700, 100), Ramp(0, 20, 30, 700, 100), Burst(1, 30, 10, 20, 700, 100), Day(1, 9, 40, 700, 100),
		}).Draw(t, "profile")
		whole := profile.Arrivals(nil, 0, 30)
		var cut []Request
		for from := 0.; from < 30; {
			to := min(30, from+rapid.Float64Range(.01, 20).Draw(t, "span"))
			cut = profile.Arrivals(cut, from, to)
			from = to
		}
		require.Len(t, cut, len(whole))
		for n, r := range whole {
			require.Equal(t, r.Prompt, cut[n].Prompt)
			require.Equal(t, r.Output, cut[n].Output)
			require.InDelta(t, r.Born, cut[n].Born, 1e-6)
		}
	})
}

func TestSizesSpreadAroundTheirMeans(t *testing.T) {
	prompts, outputs := 0, 0
	requests := Constant(10, 800, 200).Arrivals(nil, 0, 100)
	for _, r := range requests {
		require.GreaterOrEqual(t, r.Prompt, 400)
		require.LessOrEqual(t, r.Prompt, 1200)
		prompts += r.Prompt
		outputs += r.Output
	}
	require.InEpsilon(t, 800, prompts/len(requests), .01)
	require.InEpsilon(t, 200, outputs/len(requests), .01)
}

func TestReadTrace(t *testing.T) {
	for _, row := range []struct{ name, text, fails string }{
		{"with a heading and timestamps", "TIMESTAMP,ContextTokens,GeneratedTokens\n2026-05-01 18:17:03.5,4808,10\n2026-05-01 18:17:05.0,3180,8\n", ""},
		{"without a heading, in seconds", "7.5,4808,10\n9,3180,8\n", ""},
		{"in any order", "9,3180,8\n7.5,4808,10\n", ""},
		{"a bad line is named", "1,2,3\n1,2,x\n", "reading traffic, line 2"},
		{"a bad time is named", "1,2,3\nsoon,2,3\n", `"soon" is neither seconds nor a timestamp`},
		{"too many tokens", "1,2,3\n2,99999999,3\n", "no number of tokens"},
		{"too few columns", "1,2,3\n1,2\n", "wrong number of fields"},
	} {
		t.Run(row.name, func(t *testing.T) {
			trace, err := ReadTrace(strings.NewReader(row.text))
			if row.fails != "" {
				require.ErrorContains(t, err, row.fails)
				return
			}
			require.NoError(t, err)
			require.Equal(t, Trace{{Prompt: 4808, Output: 10}, {Prompt: 3180, Output: 8, Born: 1.5}}, trace)
			require.Len(t, trace.Arrivals(nil, 0, 1), 1)
			require.Len(t, trace.Arrivals(nil, 1, 1.5), 1)
			require.Empty(t, trace.Arrivals(nil, 1.5, 100))
		})
	}
}

func TestReadTraceOfPublicTraces(t *testing.T) {
	for _, name := range []string{"azure_code.csv", "azure_conv.csv"} {
		file, err := os.Open(filepath.Join("..", "..", "..", "shared", "traces", name))
		if err != nil {
			t.Logf("not read: %v", err)
			continue
		}
		trace, err := ReadTrace(file)
		require.NoError(t, file.Close())
		require.NoError(t, err)
		require.Greater(t, len(trace), 1000)
		require.Greater(t, trace[len(trace)-1].Born, 3000.)
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add("TIMESTAMP,ContextTokens,GeneratedTokens\n2026-05-01 18:17:03.5,4808,10\n")
	f.Add("1e308,1,1\n-1e308,1,1\n")
	f.Fuzz(func(t *testing.T, text string) {
		trace, err := ReadTrace(strings.NewReader(text))
		if err != nil {
			return
		}
		for n, r := range trace {
			require.GreaterOrEqual(t, r.Born, 0.)
			require.True(t, n == 0 || r.Born >= trace[n-1].Born)
		}
	})
}
