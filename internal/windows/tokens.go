package windows

import "gpustack.ai/model-deployment-scaler/internal/observe"

// source is one way to tell how many prompt tokens had to be computed.
type source struct {
	// needs must be exposed by both scrapes.
	needs observe.CounterKind
	// missed makes the cache-missed tokens of all deltas.
	missed func(tokens [observe.CounterKinds]float64) float64
}

// promptMinus is all prompt tokens without those found in a cache.
func promptMinus(hits observe.CounterKind) source {
	return source{hits, func(t [observe.CounterKinds]float64) float64 { return t[observe.PromptTokens] - t[hits] }}
}

func counted(k observe.CounterKind) source {
	return source{k, func(t [observe.CounterKinds]float64) float64 { return t[k] }}
}

// promptSources of both engines, best first (spec "Engine signals", D9).
var promptSources = map[observe.Engine][]source{
	observe.VLLM:   {counted(observe.LocalCompute), promptMinus(observe.PrefixHits)},
	observe.SGLang: {counted(observe.EffectiveInput), promptMinus(observe.EffectiveHits), promptMinus(observe.CachedTokens)},
}

// promptDemand is the cache-missed prompt tokens, by the best source that both scrapes have; never negative, since hits are
// counted earlier than the prompts they belong to.
func (c *comparison) promptDemand(tokens [observe.CounterKinds]float64) float64 {
	for _, s := range promptSources[c.after.Engine] {
		if c.both(s.needs) {
			return max(0, s.missed(tokens))
		}
	}
	return tokens[observe.PromptTokens]
}

// generation is the generated tokens, by the counter that moves while they are made where there is one.
func (c *comparison) generation(tokens [observe.CounterKinds]float64) float64 {
	if c.both(observe.RealtimeDecode) {
		return tokens[observe.RealtimeDecode]
	}
	return tokens[observe.GenerationTokens]
}

func (c *comparison) both(k observe.CounterKind) bool {
	return len(c.before.Counters[k]) > 0 && len(c.after.Counters[k]) > 0
}
