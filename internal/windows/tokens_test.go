package windows

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// Each row is two scrapes, 15 s apart, and the demand between them in tokens per second.
func TestPromptDemandTakesTheBestSourceThatBothScrapesHave(t *testing.T) {
	const p, g = observe.PromptTokens, observe.GenerationTokens
	tests := []struct {
		name          string
		engine        observe.Engine
		before, after tokens
		prompt        float64
	}{
		{"vLLM, computed here", observe.VLLM, tokens{p: 0, observe.LocalCompute: 0, observe.PrefixHits: 0}, tokens{p: 3000, observe.LocalCompute: 1500, observe.PrefixHits: 300}, 100},
		{"vLLM, prompt less hits", observe.VLLM, tokens{p: 0, observe.PrefixHits: 0}, tokens{p: 3000, observe.PrefixHits: 300}, 180},
		{"vLLM, more hits than prompts", observe.VLLM, tokens{p: 0, observe.PrefixHits: 0}, tokens{p: 1000, observe.PrefixHits: 1600}, 0},
		{"vLLM without cache accounting", observe.VLLM, tokens{p: 0}, tokens{p: 1000.5}, 66.7},
		{"vLLM, a source that has just appeared does not count", observe.VLLM, tokens{p: 0, observe.PrefixHits: 0}, tokens{p: 3000, observe.PrefixHits: 300, observe.LocalCompute: 15}, 180},
		{"SGLang, effective input", observe.SGLang, tokens{p: 0, observe.EffectiveInput: 0, observe.EffectiveHits: 0}, tokens{p: 0, observe.EffectiveInput: 1500, observe.EffectiveHits: 600}, 100},
		{"SGLang, prompt less effective hits", observe.SGLang, tokens{p: 0, observe.EffectiveHits: 0, observe.CachedTokens: 0}, tokens{p: 3000, observe.EffectiveHits: 600, observe.CachedTokens: 3000}, 160},
		{"SGLang, input of one scrape only", observe.SGLang, tokens{p: 0, observe.EffectiveHits: 0}, tokens{p: 3000, observe.EffectiveInput: 15, observe.EffectiveHits: 600}, 160},
		{"SGLang, prompt less cached tokens", observe.SGLang, tokens{p: 0, observe.CachedTokens: 0}, tokens{p: 3000, observe.CachedTokens: 1500}, 100},
		{"SGLang, retracted requests cached more than was asked", observe.SGLang, tokens{p: 0, observe.CachedTokens: 0}, tokens{p: 3000, observe.CachedTokens: 3100}, 0},
		{"SGLang without cache accounting", observe.SGLang, tokens{p: 0}, tokens{p: 3000}, 200},
		{"SGLang, the first finished request counts from zero", observe.SGLang, nil, tokens{p: 3000, g: 30}, 200},
		{"SGLang, nothing finished yet", observe.SGLang, nil, nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, observe.Server, 1)
			w.pass(ptr(sampleOf(tt.engine, 1, 0, tt.before)))
			o := w.pass(ptr(sampleOf(tt.engine, 1, 0, tt.after)))
			require.InDelta(t, tt.prompt, o.Prompt.Float64, 1e-9)
			require.True(t, o.Prompt.Valid)
			require.InDelta(t, (tt.after[p]-tt.before[p])/15, o.RawPrompt.Float64, 1e-9)
		})
	}
}

func TestDemandIsClampedPerPodNotAfterAddingUp(t *testing.T) {
	w := newWorld(t, observe.Server, 2)
	none := ptr(vllm(1, 0, tokens{observe.PromptTokens: 0, observe.PrefixHits: 0}))
	w.pass(none, none)
	o := w.pass(ptr(vllm(1, 0, tokens{observe.PromptTokens: 1500, observe.PrefixHits: 0})), ptr(vllm(1, 0, tokens{observe.PromptTokens: 0, observe.PrefixHits: 900})))
	require.Equal(t, observe.Known(100), o.Prompt)
}

func TestGenerationIsReadWhereItMovesWhileTokensAreMade(t *testing.T) {
	const g, d = observe.GenerationTokens, observe.RealtimeDecode
	tests := []struct {
		name          string
		before, after tokens
		want          float64
	}{
		{"both scrapes have the realtime counter", tokens{g: 0, d: 0}, tokens{g: 0, d: 1500}, 100},
		{"only the later one has", tokens{g: 0}, tokens{g: 150, d: 1500}, 10},
		{"neither has", tokens{g: 0}, tokens{g: 150}, 10},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, observe.Decode, 1)
			w.pass(ptr(sampleOf(observe.SGLang, 1, 0, tt.before)))
			require.Equal(t, observe.Known(tt.want), w.pass(ptr(sampleOf(observe.SGLang, 1, 0, tt.after))).Generation)
		})
	}
}

// An engine that vanished and returns would bring all it has ever counted.
func TestASeriesThatReturnsIsNotCountedFromZero(t *testing.T) {
	both := func(a, b float64) *observe.Sample {
		s := vllm(1, 0, nil)
		s.Counters[observe.GenerationTokens] = []observe.Counter{{Group: 1, Value: a}, {Group: 2, Value: b}}
		return &s
	}
	one := func(a float64) *observe.Sample { return ptr(vllm(1, 0, tokens{observe.GenerationTokens: a})) }
	w := newWorld(t, observe.Server, 1)
	w.pass(both(0, 1e6))
	require.False(t, w.pass(one(150)).Generation.Valid)
	require.Equal(t, observe.Known(10), w.pass(one(300)).Generation)
	require.False(t, w.pass(both(450, 1e6)).Generation.Valid, "a new baseline, not a million tokens")
	require.Equal(t, observe.Known(20), w.pass(both(600, 1e6+150)).Generation)
}
