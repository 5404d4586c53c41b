package windows

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

const interval = 15 * time.Second

// tokens makes the counters of one engine.
type tokens map[observe.CounterKind]float64

func sampleOf(engine observe.Engine, running, waiting float64, counters tokens) observe.Sample {
	s := observe.Sample{Engine: engine, Running: observe.Known(running), Waiting: observe.Known(waiting)}
	for k, v := range counters {
		s.Counters[k] = []observe.Counter{{Group: 1, Value: v}}
	}
	return s
}

func vllm(running, waiting float64, counters tokens) observe.Sample {
	return sampleOf(observe.VLLM, running, waiting, counters)
}

// world is a role of n Pods whose passes are played.
type world struct {
	t          *testing.T
	assignment observe.Assignment
	role       Role
	second     int
}

func newWorld(t *testing.T, kind observe.RoleKind, pods int) *world {
	w := &world{t: t, assignment: observe.Assignment{Key: observe.RoleKey{Role: "r"}, Kind: kind, Interval: interval, ReadyReplicas: pods}}
	for i := range pods {
		w.assignment.Pods = append(w.assignment.Pods, observe.Pod{Name: fmt.Sprint("pod-", i), UID: fmt.Sprint("uid-", i), Incarnation: "c1", Ordinal: i})
	}
	return w
}

// pass plays one pass an interval after the previous one. A nil sample is a Pod that does not answer.
func (w *world) pass(samples ...*observe.Sample) observe.RoleObservation {
	w.second += 15
	return w.passAt(w.second, samples...)
}

func (w *world) passAt(second int, samples ...*observe.Sample) observe.RoleObservation {
	w.second = second
	results := make([]PodResult, 0, len(samples))
	for _, s := range samples {
		if s == nil {
			results = append(results, PodResult{At: at(second), Reason: observe.Timeout, Message: "too slow"})
			continue
		}
		results = append(results, PodResult{At: at(second), Sample: *s})
	}
	o := w.role.Pass(w.assignment, at(second-1), at(second), results)
	requireSane(w.t, o)
	return o
}

func requireSane(t require.TestingT, o observe.RoleObservation) {
	for _, v := range []observe.Value{o.Running, o.Waiting, o.Prompt, o.RawPrompt, o.Generation, o.KVCacheUsage, o.TTFT.Value(), o.ITL.Value()} {
		require.False(t, math.IsNaN(v.Float64) || math.IsInf(v.Float64, 0) || v.Float64 < 0, "%+v", v)
		require.True(t, v.Valid || v.Float64 == 0)
	}
}

func ptr(s observe.Sample) *observe.Sample { return &s }

func TestGaugesCountAfterOneScrapeAndRatesAfterTwo(t *testing.T) {
	w := newWorld(t, observe.Server, 1)
	first := w.pass(ptr(vllm(3, 2, tokens{observe.PromptTokens: 1000, observe.GenerationTokens: 500})))
	require.Equal(t, []observe.Value{observe.Known(3), observe.Known(2), {}, {}}, []observe.Value{first.Running, first.Waiting, first.Prompt, first.Generation})
	require.Equal(t, observe.Fresh, first.State)
	require.Equal(t, []observe.UncoveredPod{{Name: "pod-0", Reason: observe.NoBaseline, Message: "rates need a second scrape"}}, first.Coverage.Uncovered)
	require.True(t, first.Coverage.Complete())
	require.Equal(t, interval, first.Span, "the first rate stands for one interval")

	second := w.pass(ptr(vllm(3, 2, tokens{observe.PromptTokens: 31000, observe.GenerationTokens: 3500})))
	require.Equal(t, observe.Known(2000), second.Prompt)
	require.Equal(t, observe.Known(200), second.Generation)
	require.True(t, second.Coverage.RatesComplete())
	require.Empty(t, second.Coverage.Uncovered)
	require.EqualValues(t, 2, second.Sequence)
}

func TestACounterIsNotALevel(t *testing.T) {
	w := newWorld(t, observe.Server, 1)
	s := ptr(vllm(0, 0, tokens{observe.PromptTokens: 5e6, observe.GenerationTokens: 9e5}))
	require.Equal(t, observe.Fresh, w.pass(s).State, "rates are not known yet, so it is not idle")
	for range 40 {
		o := w.pass(s)
		require.Equal(t, observe.Idle, o.State)
		require.Equal(t, observe.Known(0), o.Prompt)
	}
}

func TestAResetIsJudgedAgainstThePreviousScrape(t *testing.T) {
	w := newWorld(t, observe.Server, 1)
	var got []observe.Value
	for i, generation := range []float64{4000, 10000, 6000, 9000} {
		o := w.pass(ptr(vllm(1, 0, tokens{observe.PromptTokens: float64(1000 * i), observe.GenerationTokens: generation})))
		got = append(got, o.Generation)
		if i == 2 {
			require.Equal(t, observe.Value{}, o.Prompt, "no counter of the Pod is believed")
			require.Equal(t, observe.Reset, o.Coverage.Uncovered[0].Reason)
			require.True(t, o.Coverage.Complete(), "its gauges are")
		}
	}
	require.Equal(t, []observe.Value{{}, observe.Known(400), {}, observe.Known(200)}, got)
}

func TestWhatMakesANewBaseline(t *testing.T) {
	base := func() observe.Sample {
		s := vllm(1, 1, tokens{observe.PromptTokens: 100, observe.GenerationTokens: 100})
		s.ProcessStart = observe.Known(1e9)
		s.ITL = []observe.Histogram{{Group: 7, Count: 10, SumSeconds: observe.Known(1), Buckets: []observe.Bucket{{LESeconds: 1, Count: 5}}}}
		return s
	}
	tests := []struct {
		name   string
		change func(w *world, s *observe.Sample)
		want   observe.UncoveredReason
	}{
		{"nothing changed", func(*world, *observe.Sample) {}, ""},
		{"the container restarted", func(w *world, _ *observe.Sample) { w.assignment.Pods[0].Incarnation = "c2" }, observe.Reset},
		{"another Pod of the same name", func(w *world, _ *observe.Sample) { w.assignment.Pods[0].UID = "other" }, observe.NoBaseline},
		{"the process started anew", func(_ *world, s *observe.Sample) { s.ProcessStart = observe.Known(1e9 + 60) }, observe.Reset},
		{"another engine answers", func(_ *world, s *observe.Sample) { s.Engine = observe.SGLang }, observe.Reset},
		{"a counter fell", func(_ *world, s *observe.Sample) {
			s.Counters[observe.PromptTokens] = []observe.Counter{{Group: 1, Value: 99}}
		}, observe.Reset},
		{"a counter is read from another rank", func(_ *world, s *observe.Sample) {
			s.Counters[observe.PromptTokens] = []observe.Counter{{Group: 1, Member: 1, Value: 200}}
		}, observe.Reset},
		{"a counter vanished", func(_ *world, s *observe.Sample) { s.Counters[observe.PromptTokens] = nil }, observe.Reset},
		{"one engine's share fell behind the growth of another", func(_ *world, s *observe.Sample) {
			s.Counters[observe.PromptTokens] = []observe.Counter{{Group: 1, Value: 5}, {Group: 2, Value: 500}}
		}, observe.Reset},
		{"a histogram's count fell", func(_ *world, s *observe.Sample) { s.ITL[0].Count = 9 }, observe.Reset},
		{"a bucket fell", func(_ *world, s *observe.Sample) {
			s.ITL[0].Count, s.ITL[0].Buckets = 11, []observe.Bucket{{LESeconds: 1, Count: 4}}
		}, observe.Reset},
		{"the buckets are others", func(_ *world, s *observe.Sample) {
			s.ITL[0].Count, s.ITL[0].Buckets = 11, []observe.Bucket{{LESeconds: 2, Count: 6}}
		}, observe.Reset},
		{"a sum fell", func(_ *world, s *observe.Sample) { s.ITL[0].Count, s.ITL[0].SumSeconds = 11, observe.Known(0.5) }, observe.Reset},
		{"a histogram vanished", func(_ *world, s *observe.Sample) { s.ITL = nil }, observe.Reset},
		{"a counter is no number", func(_ *world, s *observe.Sample) { s.InvalidCounter = "x" }, observe.InvalidValue},
		{"the last scrape was 300 s ago", func(w *world, _ *observe.Sample) { w.second += 285 }, ""},
		{"the last scrape was longer ago", func(w *world, _ *observe.Sample) { w.second += 286 }, observe.NoBaseline},
		{"the same answer again", func(w *world, _ *observe.Sample) { w.second -= 15 }, observe.NotScraped},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, observe.Server, 1)
			w.pass(ptr(base()))
			changed := base()
			tt.change(w, &changed)
			o := w.pass(&changed)
			if tt.want == "" {
				require.Empty(t, o.Coverage.Uncovered)
				require.Equal(t, observe.Known(0), o.Prompt)
				return
			}
			require.Equal(t, tt.want, o.Coverage.Uncovered[0].Reason)
			require.Equal(t, observe.Value{}, o.Prompt)
			require.Equal(t, observe.Latency{}, o.ITL)
		})
	}
}

func TestAfterAnUnusableCounterTheNextScrapeIsTheBaseline(t *testing.T) {
	w := newWorld(t, observe.Server, 1)
	w.pass(ptr(vllm(1, 0, tokens{observe.GenerationTokens: 100})))
	bad := vllm(1, 0, tokens{observe.GenerationTokens: 0})
	bad.InvalidCounter = "vllm:generation_tokens_total"
	require.Equal(t, observe.InvalidValue, w.pass(&bad).Coverage.Uncovered[0].Reason)
	require.Equal(t, observe.NoBaseline, w.pass(ptr(vllm(1, 0, tokens{observe.GenerationTokens: 400}))).Coverage.Uncovered[0].Reason)
	require.Equal(t, observe.Known(20), w.pass(ptr(vllm(1, 0, tokens{observe.GenerationTokens: 700}))).Generation)
}

func TestAFailedScrapeKeepsTheOlderBaseline(t *testing.T) {
	w := newWorld(t, observe.Server, 1)
	w.pass(ptr(vllm(1, 0, tokens{observe.GenerationTokens: 100})))
	failed := w.pass(nil)
	require.Equal(t, observe.Missing, failed.State)
	require.Equal(t, observe.Value{}, failed.Running)
	require.Equal(t, []observe.UncoveredPod{{Name: "pod-0", Reason: observe.Timeout, Message: "too slow"}}, failed.Coverage.Uncovered)
	require.Equal(t, observe.Known(10), w.pass(ptr(vllm(1, 0, tokens{observe.GenerationTokens: 400}))).Generation, "over 30 seconds")
}

func TestPartialCoverageIsALowerBound(t *testing.T) {
	w := newWorld(t, observe.Server, 2)
	w.assignment.ReadyReplicas = 2
	busy := func(generation float64) *observe.Sample {
		return ptr(vllm(20, 4, tokens{observe.GenerationTokens: generation}))
	}
	w.pass(busy(0), busy(0))
	o := w.pass(busy(1500), nil)
	require.Equal(t, observe.Known(20), o.Running)
	require.Equal(t, observe.Known(100), o.Generation)
	require.False(t, o.Coverage.Complete())
	require.Equal(t, observe.Coverage{ReadyReplicas: 2, Targets: 2, Selected: 2, Answered: 1, Rated: 1, Uncovered: o.Coverage.Uncovered}, o.Coverage)
}

func TestAnUnusableGaugeLeavesThePodOut(t *testing.T) {
	w := newWorld(t, observe.Server, 2)
	bad := vllm(0, 2, tokens{observe.GenerationTokens: 5})
	bad.Running, bad.InvalidGauge = observe.Value{}, "vllm:num_requests_running"
	o := w.pass(ptr(vllm(20, 4, nil)), &bad)
	require.Equal(t, observe.Known(20), o.Running)
	require.Equal(t, observe.Known(4), o.Waiting)
	require.Equal(t, observe.InvalidValue, o.Coverage.Uncovered[1].Reason)
	require.Equal(t, 1, o.Coverage.Answered)
}

func TestAnExpositionWithoutRequestGaugesIsNoAnswer(t *testing.T) {
	w := newWorld(t, observe.Server, 1)
	o := w.pass(&observe.Sample{Engine: observe.VLLM, Running: observe.Known(1)})
	require.Equal(t, observe.NoEngineSeries, o.Coverage.Uncovered[0].Reason)
	require.Equal(t, observe.Missing, o.State)
}

func TestPodsOverTheCapMakeCoverageIncomplete(t *testing.T) {
	w := newWorld(t, observe.Server, 3)
	o := w.pass(ptr(vllm(1, 1, nil)), ptr(vllm(1, 1, nil)))
	require.Equal(t, 3, o.Coverage.Targets)
	require.Equal(t, 2, o.Coverage.Selected)
	require.False(t, o.Coverage.Complete())
	require.Equal(t, observe.UncoveredPod{Name: "pod-2", Reason: observe.OverCap}, o.Coverage.Uncovered[2])
}

func TestStates(t *testing.T) {
	const kinds = observe.PromptTokens
	quiet := vllm(0, 0, tokens{kinds: 5})
	tests := []struct {
		name  string
		ready int
		then  *observe.Sample
		want  observe.SignalState
	}{
		{"nothing to do", 1, &quiet, observe.Idle},
		{"a running request", 1, ptr(vllm(1, 0, tokens{kinds: 5})), observe.Fresh},
		{"a waiting request and no demand", 1, ptr(vllm(0, 1, tokens{kinds: 5})), observe.Fresh},
		{"demand in this pass", 1, ptr(vllm(0, 0, tokens{kinds: 6})), observe.Fresh},
		{"no answer", 1, nil, observe.Missing},
		{"no ready replica", 0, &quiet, observe.Missing},
		{"no rate, so no demand is not known", 1, ptr(vllm(0, 0, tokens{kinds: 4})), observe.Fresh},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, observe.Server, 1)
			w.pass(&quiet)
			w.assignment.ReadyReplicas = tt.ready
			require.Equal(t, tt.want, w.pass(tt.then).State)
		})
	}
}

func TestAPodThatLeavesIsOutOfTheSumsAtOnceAndKnownWhenItComesBack(t *testing.T) {
	w := newWorld(t, observe.Server, 2)
	all := w.assignment
	s := func(g float64) *observe.Sample { return ptr(vllm(8, 0, tokens{observe.GenerationTokens: g})) }
	w.pass(s(0), s(0))
	w.assignment.Pods = all.Pods[:1]
	require.Equal(t, observe.Known(8), w.pass(s(150)).Running)
	w.assignment = all
	require.Equal(t, observe.Known(10+20), w.pass(s(300), s(600)).Generation, "10 over 15 s and 20 over 30 s")
}

func TestADecodeRoleWaitsForTransfersTooAndHasNoPromptDemand(t *testing.T) {
	s := sampleOf(observe.SGLang, 1, 2, tokens{observe.PromptTokens: 10, observe.GenerationTokens: 10})
	s.TransferQueue = observe.Known(4)
	for kind, waiting := range map[observe.RoleKind]float64{observe.Decode: 6, observe.Prefill: 2, observe.Server: 2} {
		w := newWorld(t, kind, 1)
		w.pass(&s)
		o := w.pass(&s)
		require.Equal(t, observe.Known(waiting), o.Waiting, kind)
		require.Equal(t, kind != observe.Decode, o.Prompt.Valid, kind)
		require.True(t, o.Generation.Valid, kind)
	}
}

func TestKVCacheUsageIsAveragedOverThePodsThatReportIt(t *testing.T) {
	w := newWorld(t, observe.Server, 3)
	with := func(v observe.Value) *observe.Sample {
		s := vllm(1, 1, nil)
		s.KVCacheUsage = v
		return &s
	}
	require.InDelta(t, 0.4, w.pass(with(observe.Known(0.2)), with(observe.Value{}), with(observe.Known(0.6))).KVCacheUsage.Float64, 1e-12)
}

// Whatever engines count, an observation has no negative and no number that is none, and a Pod is rated or named.
func TestObservationsAreSaneWhateverEnginesSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods := rapid.IntRange(1, 3).Draw(t, "pods")
		var role Role
		a := observe.Assignment{Kind: rapid.SampledFrom([]observe.RoleKind{observe.Server, observe.Prefill, observe.Decode}).Draw(t, "kind"), Interval: interval, ReadyReplicas: pods}
		for i := range pods {
			a.Pods = append(a.Pods, observe.Pod{Name: fmt.Sprint(i), UID: fmt.Sprint(i)})
		}
		for pass := range rapid.IntRange(1, 6).Draw(t, "passes") {
			var results []PodResult
			for range a.Pods {
				results = append(results, PodResult{At: at(15 * pass), Sample: drawSample(t)})
			}
			o := role.Pass(a, at(15*pass), at(15*pass), results)
			requireSane(t, o)
			require.Equal(t, pods, o.Coverage.Rated+len(o.Coverage.Uncovered))
		}
	})
}

func drawSample(t *rapid.T) observe.Sample {
	value := rapid.OneOf(rapid.Float64Range(0, 100), rapid.Float64Range(0, 1e18))
	s := observe.Sample{
		Engine:  rapid.SampledFrom([]observe.Engine{observe.VLLM, observe.SGLang}).Draw(t, "engine"),
		Running: observe.Known(value.Draw(t, "running")), Waiting: observe.Known(value.Draw(t, "waiting")),
	}
	for k := range observe.CounterKinds {
		for g := range rapid.IntRange(0, 2).Draw(t, "groups") {
			s.Counters[k] = append(s.Counters[k], observe.Counter{Group: uint64(g), Value: value.Draw(t, "counter")})
		}
	}
	for g := range rapid.IntRange(0, 2).Draw(t, "histograms") {
		h := observe.Histogram{Group: uint64(g), Count: value.Draw(t, "count"), SumSeconds: observe.Value{Float64: value.Draw(t, "sum"), Valid: rapid.Bool().Draw(t, "has sum")}}
		for i := range rapid.IntRange(0, 3).Draw(t, "buckets") {
			h.Buckets = append(h.Buckets, observe.Bucket{LESeconds: float64(i), Count: value.Draw(t, "bucket")})
		}
		s.TTFT = append(s.TTFT, h)
	}
	return s
}
