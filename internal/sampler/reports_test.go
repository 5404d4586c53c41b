package sampler

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/scrape"
	"gpustack.ai/model-deployment-scaler/internal/windows"
)

// page is what one Pod answers: a body of plain text, or one with a content type.
type page struct{ contentType, body string }

func plain(lines ...string) page { return page{body: strings.Join(lines, "\n")} }

// told plays successive passes over the Pods of a role, from bytes to observations, 15 seconds apart.
func told(kind observe.RoleKind, passes ...[]page) []observe.RoleObservation {
	a := observe.Assignment{Kind: kind, Interval: 15 * time.Second, ReadyReplicas: len(passes[0])}
	for i := range passes[0] {
		a.Pods = append(a.Pods, observe.Pod{Name: fmt.Sprint("p", i), UID: fmt.Sprint("u", i), Ordinal: i})
	}
	var role windows.Role
	var out []observe.RoleObservation
	decoder := scrape.NewDecoder(scrape.Sum)
	for i, pages := range passes {
		now := start.Add(time.Duration(i) * a.Interval)
		var results []windows.PodResult
		for _, p := range pages {
			answer, err := decoder.Decode([]byte(p.body), p.contentType, "")
			result := windows.PodResult{At: now, Sample: answer.Sample}
			if err != nil {
				result.Reason, result.Message = scrape.ReasonOf(err), err.Error()
			}
			results = append(results, result)
		}
		out = append(out, role.Pass(a, now, now, results))
	}
	return out
}

func requests(running, waiting string) page {
	return plain("vllm:num_requests_running "+running, "vllm:num_requests_waiting "+waiting, "")
}

// What people saw with other scrapers and autoscalers, as input, by where it was reported.
func TestReportedExpositions(t *testing.T) {
	good := requests("6", "4")
	t.Run("a bad byte in somebody else's label, prometheus/prometheus#4803", func(t *testing.T) {
		o := told(observe.Server, []page{good, plain("vllm:num_requests_running 6", "http_requests_total{host=\"\xc0\xa7\"} 1", "vllm:num_requests_waiting 4")})[0]
		require.Equal(t, observe.Known(12), o.Running)
		require.True(t, o.Coverage.Complete())
	})
	t.Run("a bad byte in a needed line costs that Pod alone", func(t *testing.T) {
		o := told(observe.Server, []page{good, plain("vllm:num_requests_running 6", "vllm:num_requests_waiting{a=\"\xc0\"} 4")})[0]
		require.Equal(t, observe.Known(6), o.Running, "not even what came before the bad byte")
		require.Equal(t, observe.Known(4), o.Waiting)
		require.False(t, o.Coverage.Complete())
		require.Equal(t, "p1", lastFailure(o.Coverage.Uncovered).Name)
		require.Contains(t, lastFailure(o.Coverage.Uncovered).Message, "line 2")
	})
	t.Run("no line feed at the end, influxdata/telegraf#10608", func(t *testing.T) {
		o := told(observe.Server, []page{plain("vllm:num_requests_running 3", "vllm:num_requests_waiting 5")})[0]
		require.Equal(t, observe.Known(8), o.Running.Plus(o.Waiting))
	})
	t.Run("carriage returns, prometheus/prometheus#14065", func(t *testing.T) {
		o := told(observe.Server, []page{plain("# TYPE vllm:num_requests_running gauge\r", "vllm:num_requests_running 3\r", "vllm:num_requests_waiting 0\r", "")})[0]
		require.Equal(t, observe.Known(3), o.Running)
	})
	t.Run("wrong content types are no zeros, prometheus/prometheus#15485", func(t *testing.T) {
		for _, p := range []page{{"text/html; charset=utf-8", "<html>sign in</html>"}, {"application/json", "{}"}} {
			o := told(observe.Server, []page{p})[0]
			require.Equal(t, observe.Missing, o.State)
			require.Equal(t, observe.Value{}, o.Running)
		}
	})
	t.Run("exemplars in plain text cost that Pod alone, prometheus/prometheus#15259", func(t *testing.T) {
		o := told(observe.Server, []page{good, plain(good.body, `vllm:time_to_first_token_seconds_bucket{le="0.5"} 8 # {trace_id="abc"} 0.3`)})[0]
		require.Equal(t, 1, o.Coverage.Answered)
		require.Equal(t, observe.Malformed, lastFailure(o.Coverage.Uncovered).Reason)
	})
	for _, v := range []string{"NaN", "+Inf", "-Inf", "-3"} {
		t.Run(v+" running requests are missing, kedacore/keda#7475", func(t *testing.T) {
			o := told(observe.Server, []page{requests("20", "4"), requests(v, "2")})[0]
			require.Equal(t, observe.Known(24), o.Running.Plus(o.Waiting))
			require.False(t, o.Coverage.Complete())
			require.Equal(t, observe.InvalidValue, lastFailure(o.Coverage.Uncovered).Reason)
		})
	}
	t.Run("one series twice is never their sum, sfudeus/homematic_exporter#64", func(t *testing.T) {
		o := told(observe.Server, []page{good, plain(`vllm:num_requests_running{engine="0"} 3`, `vllm:num_requests_running{engine="0"} 5`, "vllm:num_requests_waiting 0")})[0]
		require.Equal(t, observe.Known(6), o.Running)
		require.Contains(t, lastFailure(o.Coverage.Uncovered).Message, "twice")
	})
}

// counted is a busy page with counters; extra lines follow.
func counted(prompt, generation float64, extra ...string) page {
	return plain(append([]string{
		"vllm:num_requests_running 1", "vllm:num_requests_waiting 0",
		fmt.Sprintf("vllm:prompt_tokens_total %.0f", prompt), fmt.Sprintf("vllm:generation_tokens_total %.0f", generation),
	}, extra...)...)
}

func TestReportedRates(t *testing.T) {
	t.Run("an engine that answers OpenMetrics unasked, gpustack/gpustack#6215", func(t *testing.T) {
		om := func(tokens int) page {
			return page{"application/openmetrics-text; version=1.0.0", fmt.Sprintf("# TYPE vllm:prompt_tokens counter\nvllm:prompt_tokens_total{engine=\"0\"} %d\n"+
				"vllm:prompt_tokens_created{engine=\"0\"} 1.7e+09\n# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\"} 2.0\nvllm:num_requests_waiting{engine=\"0\"} 0\n# EOF\n", tokens)}
		}
		o := told(observe.Server, []page{om(34567503), counted(500, 0)}, []page{om(34567503 + 30000), counted(500+30000, 0)})[1]
		require.Equal(t, observe.Known(4000), o.Prompt)
		require.True(t, o.Coverage.RatesComplete())
	})
	t.Run("explicit timestamps are not the time of the scrape, google/mtail#5", func(t *testing.T) {
		at := func(tokens int) page {
			return plain("vllm:num_requests_running 1", "vllm:num_requests_waiting 0", fmt.Sprintf("vllm:generation_tokens_total %d 1395066363000", tokens))
		}
		require.Equal(t, observe.Known(20), told(observe.Server, []page{at(1000)}, []page{at(1300)})[1].Generation)
	})
	t.Run("a counter is not a level, volcano-sh/kthena#1037", func(t *testing.T) {
		idle := plain("vllm:num_requests_running 0", "vllm:num_requests_waiting 0", "vllm:prompt_tokens_total 5000000", "vllm:generation_tokens_total 900000")
		seen := told(observe.Server, []page{idle}, []page{idle}, []page{idle})
		require.Equal(t, observe.Value{}, seen[0].Prompt)
		for _, o := range seen[1:] {
			require.Equal(t, observe.Idle, o.State)
			require.Equal(t, observe.Known(0), o.Prompt)
		}
	})
	t.Run("a reset is judged by the scrape before, Stackdriver/stackdriver-prometheus-sidecar#263", func(t *testing.T) {
		seen := told(observe.Server, []page{counted(0, 4000)}, []page{counted(10, 10000)}, []page{counted(20, 6000)}, []page{counted(30, 9000)})
		require.Equal(t, observe.Known(400), seen[1].Generation)
		require.Equal(t, observe.Value{}, seen[2].Generation)
		require.Equal(t, observe.Value{}, seen[2].Prompt)
		require.Equal(t, observe.Known(200), seen[3].Generation)
	})
	t.Run("an outage is not zero demand, knative/serving#2705", func(t *testing.T) {
		gone := page{"text/html", "503"}
		seen := told(observe.Server, []page{counted(0, 0)}, []page{counted(0, 28500)}, []page{gone}, []page{gone}, []page{counted(0, 4*28500)})
		require.Equal(t, observe.Known(1900), seen[1].Generation)
		require.Equal(t, []observe.SignalState{observe.Missing, observe.Missing}, []observe.SignalState{seen[2].State, seen[3].State})
		require.Equal(t, observe.Value{}, seen[2].Generation)
		require.Equal(t, observe.Known(1900), seen[4].Generation, "over the true gap")
	})
	t.Run("more cache hits than prompt tokens, vllm-project/vllm#25780", func(t *testing.T) {
		with := func(prompt, hits, queries, generation int) page {
			return counted(float64(prompt), float64(generation), fmt.Sprintf("vllm:prefix_cache_hits_total %d", hits), fmt.Sprintf("vllm:prefix_cache_queries_total %d", queries))
		}
		o := told(observe.Server, []page{with(0, 0, 0, 0)}, []page{with(1000, 1600, 1200, 3000)})[1]
		require.Equal(t, observe.Known(0), o.Prompt)
		require.Equal(t, observe.Known(200), o.Generation)
		stuck := told(observe.Server, []page{with(0, 0, 0, 0)}, []page{with(1000, 0, 1200, 3000)})[1]
		require.InDelta(t, 66.67, stuck.Prompt.Float64, 0.01)
	})
	t.Run("gauges frozen after an abort are believed and not idle, vllm-project/vllm#22545", func(t *testing.T) {
		frozen := plain("vllm:num_requests_running 106", "vllm:num_requests_waiting 15", "vllm:prompt_tokens_total 7", "vllm:generation_tokens_total 7")
		o := told(observe.Server, []page{frozen}, []page{frozen})[1]
		require.Equal(t, observe.Fresh, o.State)
		require.Equal(t, observe.Known(0), o.Generation)
		require.Equal(t, observe.Known(106), o.Running)
	})
}

func TestReportedLatencies(t *testing.T) {
	ttft := func(count int, sum float64, buckets ...any) page {
		lines := []string{fmt.Sprintf("vllm:time_to_first_token_seconds_count %d", count), fmt.Sprintf("vllm:time_to_first_token_seconds_sum %v", sum)}
		for i := 0; i < len(buckets); i += 2 {
			lines = append(lines, fmt.Sprintf("vllm:time_to_first_token_seconds_bucket{le=\"%v\"} %v", buckets[i], buckets[i+1]))
		}
		return counted(0, 0, lines...)
	}
	tests := []struct {
		name          string
		before, after page
		want          float64
	}{
		{"the infinite bucket gives the mean, scylladb/scylladb#20255", ttft(0, 0, .5, 0, 1, 0, 10, 0, "+Inf", 0), ttft(100, 150, .5, 50, 1, 80, 10, 90, "+Inf", 100), 1500},
		{"no buckets give the mean", ttft(0, 0), ttft(100, 150), 1500},
		{"the boundary itself, not a point between, spiceai/spiceai#12693", ttft(0, 0, .1, 0, .25, 0, .5, 0, "+Inf", 0), ttft(100, 9, .1, 90, .25, 95, .5, 99, "+Inf", 100), 250},
		{"all in the first bucket, vllm-project/vllm#6337", ttft(0, 0, .001, 0, "+Inf", 0), ttft(208, 0, .001, 208, "+Inf", 208), 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.InDelta(t, tt.want, told(observe.Server, []page{tt.before}, []page{tt.after})[1].TTFT.Milliseconds, 1e-9)
		})
	}
}

// kedify/otel-add-on#214: a late and a repeated sample change nothing.
func TestSamplesThatComeLateOrTwiceChangeNothing(t *testing.T) {
	a := observe.Assignment{Kind: observe.Server, Interval: 15 * time.Second, ReadyReplicas: 1, Pods: []observe.Pod{{Name: "p", UID: "u"}}}
	decoder := scrape.NewDecoder(scrape.Sum)
	var role windows.Role
	var rates []observe.Value
	for _, at := range []int{15, 30, 15, 30, 45} {
		answer, err := decoder.Decode([]byte(counted(0, float64(10*at)).body), "", "")
		require.NoError(t, err)
		now := start.Add(time.Duration(at) * time.Second)
		o := role.Pass(a, now, now, []windows.PodResult{{At: now, Sample: answer.Sample}})
		rates = append(rates, o.Generation)
		for _, u := range o.Coverage.Uncovered {
			require.NotEqual(t, observe.Reset, u.Reason)
		}
	}
	require.Equal(t, []observe.Value{{}, observe.Known(10), {}, {}, observe.Known(10)}, rates)
}

// camunda/camunda#11330: a new Pod behind a known address is a new beginning, and disturbs nobody.
func TestAnAddressThatAnotherPodGotStartsAnew(t *testing.T) {
	a := observe.Assignment{Kind: observe.Server, Interval: 15 * time.Second, ReadyReplicas: 2, Pods: []observe.Pod{
		{Name: "a", UID: "a", Address: "10.0.0.5"}, {Name: "b", UID: "b", Ordinal: 1, Address: "10.0.0.6"},
	}}
	decoder := scrape.NewDecoder(scrape.Sum)
	var role windows.Role
	pass := func(second int, generated ...float64) observe.RoleObservation {
		now := start.Add(time.Duration(second) * time.Second)
		var results []windows.PodResult
		for _, g := range generated {
			answer, err := decoder.Decode([]byte(counted(0, g).body), "", "")
			require.NoError(t, err)
			results = append(results, windows.PodResult{At: now, Sample: answer.Sample})
		}
		return role.Pass(a, now, now, results)
	}
	pass(0, 9000, 0)
	a.Pods[0].Name, a.Pods[0].UID = "a-again", "a2"
	o := pass(15, 100, 150)
	require.Equal(t, observe.Known(10), o.Generation, "of the other one alone")
	require.Equal(t, []observe.UncoveredPod{{Name: "a-again", Reason: observe.NoBaseline, Message: "rates need a second scrape"}}, o.Coverage.Uncovered)
	require.Equal(t, observe.Known(10+20), pass(30, 400, 300).Generation)
}

// Wherever a transfer breaks off, the older baseline stays: the next whole answer gives the rate over both intervals.
func TestATransferThatBreaksOffKeepsTheOlderBaseline(t *testing.T) {
	files, err := filepath.Glob("../scrape/testdata/*.prom")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var body atomic.Value
	var sent atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		whole, _ := body.Load().([]byte)
		w.Header().Set("Content-Length", fmt.Sprint(len(whole)))
		_, _ = w.Write(whole[:sent.Load()])
	}))
	t.Cleanup(server.Close)
	pod := (&engine{Server: server}).pod(t, 0)
	scraper := scrape.New(scrape.Options{MaxBytes: 8 << 20, DataParallel: scrape.Sum})
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			whole, err := os.ReadFile(file)
			require.NoError(t, err)
			if strings.HasSuffix(string(whole), "# EOF\n") {
				whole = whole[:len(whole)-len("# EOF\n")] // it is sent as plain text here
			}
			before := fmt.Appendf(nil, "%sprocess_start_time_seconds{added=\"\"} 7\n", whole)
			body.Store(before)
			a := observe.Assignment{Kind: observe.Server, Interval: 15 * time.Second, ReadyReplicas: 1, Pods: []observe.Pod{pod}}
			var role windows.Role
			pass := func(second int, bytes int) observe.RoleObservation {
				sent.Store(int64(bytes))
				answer, err := scraper.Scrape(t.Context(), pod, "")
				now := start.Add(time.Duration(second) * time.Second)
				result := windows.PodResult{At: now, Sample: answer.Sample}
				if err != nil {
					result.Reason = scrape.ReasonOf(err)
				}
				return role.Pass(a, now, now, []windows.PodResult{result})
			}
			if first := pass(0, len(before)); first.Coverage.Answered == 0 {
				require.NotEmpty(t, first.Coverage.Uncovered[0].Reason, "nothing to keep")
				return
			}
			for i := range 20 {
				o := pass(i+1, i*len(before)/20)
				require.Equal(t, 0, o.Coverage.Answered)
				require.Equal(t, observe.Malformed, o.Coverage.Uncovered[0].Reason)
			}
			last := pass(30, len(before))
			require.Equal(t, 1, last.Coverage.Rated, "compared with the scrape of 30 seconds ago")
		})
	}
}
