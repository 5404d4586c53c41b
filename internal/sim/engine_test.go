package sim

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

var small = Capacity{
	PrefillTokensPerSecond: 1000, DecodeTokensPerSecond: 400, RequestTokensPerSecond: 50,
	MaxRunning: 8, KVTokens: 4000, PrefixHit: .25,
}

func TestOneRequestTakesPrefillThenDecode(t *testing.T) {
	e := NewEngine(observe.VLLM, observe.Server, small, 0)
	e.Submit(Request{Prompt: 1000, Output: 51})
	e.Advance(.7)
	require.Equal(t, 1, e.Running())
	require.Zero(t, e.Counts().Prompt, "the prompt counts when its prefill ends, after 750 of 1000 tokens at 1000 a second")
	e.Advance(.8)
	require.Equal(t, uint64(1000), e.Counts().Prompt)
	require.Equal(t, uint64(750), e.Counts().Computed)
	require.InDelta(t, .75, e.hist.firstToken.Sum, 1e-9)
	e.Advance(1.7)
	require.Equal(t, 1, e.Running(), "50 more tokens at 50 a second")
	e.Advance(1.76)
	require.Equal(t, uint64(1), e.Counts().Finished)
	require.InDelta(t, 51, e.Counts().Generated, 1e-3)
	require.Zero(t, e.Load())
	require.Zero(t, e.KVUsage())
	require.Len(t, e.Take(), 1)
	require.Empty(t, e.Take())
}

func TestRequestsWaitForRoom(t *testing.T) {
	t.Run("in the batch", func(t *testing.T) {
		e := NewEngine(observe.VLLM, observe.Server, small, 0)
		for range 11 {
			e.Submit(Request{Prompt: 10, Output: 10})
		}
		require.Equal(t, 8, e.Running())
		require.Equal(t, 3, e.Waiting())
	})
	t.Run("in the KV cache", func(t *testing.T) {
		e := NewEngine(observe.VLLM, observe.Server, small, 0)
		for range 3 {
			e.Submit(Request{Prompt: 1500, Output: 500})
		}
		require.Equal(t, 2, e.Running())
		require.Equal(t, 1, e.Waiting())
		require.InDelta(t, 3000./4000, e.KVUsage(), 1e-9)
	})
	t.Run("but one that never fits gets in alone", func(t *testing.T) {
		e := NewEngine(observe.VLLM, observe.Server, small, 0)
		e.Submit(Request{Prompt: 9000, Output: 10})
		require.Equal(t, 1, e.Running())
		require.InDelta(t, 1, e.KVUsage(), 0)
	})
}

func TestDecodeCapacityIsShared(t *testing.T) {
	e := NewEngine(observe.VLLM, observe.Server, small, 0)
	wide := small
	wide.MaxRunning, wide.KVTokens = 100, 1_000_000
	e.cap = wide
	for range 40 {
		e.Submit(Request{Prompt: 1, Output: 1000})
	}
	e.Advance(1)
	before := e.Counts().Generated
	e.Advance(11)
	require.InDelta(t, 10*400, e.Counts().Generated-before, 1e-6, "40 requests get the 400 tokens a second together")
	require.Positive(t, e.hist.perToken.Counts[4], "each at a tenth of a second a token")
}

func TestPrefillEngineIsDoneWithTheFirstToken(t *testing.T) {
	e := NewEngine(observe.SGLang, observe.Prefill, small, 0)
	e.Submit(Request{Prompt: 1000, Output: 500})
	e.Advance(1)
	require.Equal(t, uint64(1), e.Counts().Finished)
	require.InDelta(t, 1, e.Counts().Generated, 0)
	require.Equal(t, []Request{{Prompt: 1000, Output: 500}}, e.Take())
}

func TestDecodeEngineTakesOverTheCache(t *testing.T) {
	for _, engine := range []observe.Engine{observe.VLLM, observe.SGLang} {
		e := NewEngine(engine, observe.Decode, small, 5)
		e.Submit(Request{Prompt: 1000, Output: 11, Born: 3})
		require.Zero(t, e.Running())
		require.Equal(t, 1, e.Transferring())
		require.Equal(t, engine == observe.VLLM, e.Waiting() == 1, "vLLM counts it as waiting")
		e.Advance(10)
		require.Zero(t, e.Counts().Computed)
		require.Equal(t, uint64(1000), e.Counts().Prompt)
		first := map[observe.Engine]float64{observe.VLLM: 1, observe.SGLang: 3}[engine]
		require.InDelta(t, first, e.hist.firstToken.Sum, 1e-9, "an SGLang pair counts from the client's call")
	}
}

// Random engines, requests and steps.
func drive(t *rapid.T, check func(e *Engine)) *Engine {
	capacity := Capacity{
		PrefillTokensPerSecond: rapid.Float64Range(10, 1e5).Draw(t, "prefill"),
		DecodeTokensPerSecond:  rapid.Float64Range(10, 1e4).Draw(t, "decode"),
		RequestTokensPerSecond: rapid.Float64Range(1, 200).Draw(t, "request"),
		MaxRunning:             rapid.IntRange(1, 50).Draw(t, "batch"),
		KVTokens:               rapid.IntRange(100, 100_000).Draw(t, "kv"),
		PrefixHit:              rapid.Float64Range(0, 1).Draw(t, "hit"),
	}
	engine := rapid.SampledFrom([]observe.Engine{observe.VLLM, observe.SGLang}).Draw(t, "engine")
	kind := rapid.SampledFrom([]observe.RoleKind{observe.Server, observe.Prefill, observe.Decode, observe.Encode}).Draw(t, "kind")
	e := NewEngine(engine, kind, capacity, 0)
	for now := 0.; now < 60; now += rapid.Float64Range(0, 10).Draw(t, "step") + .001 {
		e.Advance(now)
		for range rapid.IntRange(0, 20).Draw(t, "arrivals") {
			e.Submit(Request{Prompt: rapid.IntRange(0, 5000).Draw(t, "prompt"), Output: rapid.IntRange(0, 500).Draw(t, "output"), Born: now})
		}
		check(e)
	}
	return e
}

func TestNoRequestIsLostAndNoLimitPassed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var last Counts
		drive(t, func(e *Engine) {
			c := e.Counts()
			require.Equal(t, c.Arrived, c.Finished+uint64(e.Load()))
			require.Equal(t, e.Load(), e.queue.len()+e.loading.len()+len(e.running))
			require.LessOrEqual(t, e.loading.len()+len(e.running), e.cap.MaxRunning)
			require.True(t, e.kv <= e.cap.KVTokens || e.loading.len()+len(e.running) == 1, "KV cache over its size")
			require.LessOrEqual(t, c.Computed, c.Prompt)
			require.LessOrEqual(t, c.Hit, c.Queried)
			require.GreaterOrEqual(t, c.Generated, last.Generated)
			require.GreaterOrEqual(t, c.Prompt, last.Prompt)
			require.GreaterOrEqual(t, c.Finished, last.Finished)
			require.Equal(t, c.Finished, e.hist.endToEnd.Total())
			require.InDelta(t, c.Generated, float64(e.hist.firstToken.Total()+e.hist.perToken.Total()), 1.001, "each token is timed once")
			last = c
		})
	})
}

func TestOftenOrSeldomMakesNoDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		often, seldom := NewEngine(observe.VLLM, observe.Server, small, 0), NewEngine(observe.VLLM, observe.Server, small, 0)
		for range rapid.IntRange(1, 30).Draw(t, "requests") {
			r := Request{Prompt: rapid.IntRange(1, 1000).Draw(t, "prompt"), Output: rapid.IntRange(1, 300).Draw(t, "output")}
			often.Submit(r)
			seldom.Submit(r)
		}
		for now := 0.; now < 20; now += .01 {
			often.Advance(now)
		}
		often.Advance(20)
		seldom.Advance(20)
		require.Equal(t, seldom.Counts().Finished, often.Counts().Finished)
		require.InDelta(t, seldom.Counts().Generated, often.Counts().Generated, 1e-3)
		require.InDelta(t, seldom.hist.endToEnd.Sum, often.hist.endToEnd.Sum, 1e-3)
	})
}

func TestLittlesLaw(t *testing.T) {
	e := NewEngine(observe.VLLM, observe.Server, DefaultCapacity(), 0)
	traffic := Constant(8, 800, 200)
	held, steps := 0., 0.
	for now := 0.; now < 600; now += .05 {
		for _, r := range traffic.Arrivals(nil, now, now+.05) {
			e.Advance(r.Born)
			e.Submit(r)
		}
		e.Advance(now + .05)
		held += float64(e.Load())
		steps++
	}
	throughput := float64(e.Counts().Finished) / 600
	meanTime := e.hist.endToEnd.Sum / float64(e.hist.endToEnd.Total())
	require.InEpsilon(t, throughput*meanTime, held/steps, .05)
	require.Greater(t, held/steps, 10., "there was a load to speak of")
}

func TestHistogramKeepsSumAndCount(t *testing.T) {
	h := newHistogram([]float64{1, 2})
	h.Observe(1, 2)
	h.Observe(1.5, 1)
	h.Observe(7, 3)
	require.Equal(t, []uint64{2, 1, 3}, h.Counts)
	require.InDelta(t, 24.5, h.Sum, 0)
	require.Equal(t, uint64(6), h.Total())
	require.True(t, math.IsInf(h.bound(2), 1))
}
