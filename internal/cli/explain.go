package cli

import (
	"fmt"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// explain says in plain words why something is missing from an observation.
func explain(obs observe.RoleObservation, readings []reading, o *inspectOptions) []string {
	var notes []string
	note := func(format string, a ...any) { notes = append(notes, fmt.Sprintf(format, a...)) }
	for _, u := range obs.Coverage.Uncovered {
		note("%s", o.about(u))
	}
	for _, r := range readings {
		if r.cut {
			note("%s does not end with a line end: it may have been cut off", r.source)
		}
	}
	if obs.Coverage.Answered == 0 {
		return notes
	}
	if wanted := o.hint(); wanted != "" && wanted != obs.Engine {
		note("these are the metrics of %s, not of %s", obs.Engine, wanted)
	}
	if !obs.KVCacheUsage.Valid {
		note("no KV cache usage: the engine does not expose it")
	}
	if obs.Coverage.Rated == 0 {
		return notes
	}
	if obs.Kind == observe.Decode {
		note("no prompt rates: a decode engine also counts the prompt tokens that were sent to it, so they say nothing of its work")
	}
	if obs.TTFT.Source == "" {
		note("no TTFT: %s", whyNoLatency(obs, obs.TTFT, exposes(readings, ttftOf), "no request got its first token between the scrapes"))
	}
	if obs.ITL.Source == "" {
		note("no ITL: %s", whyNoLatency(obs, obs.ITL, exposes(readings, itlOf), "no token after a first one was made between the scrapes"))
	}
	return notes
}

func whyNoLatency(obs observe.RoleObservation, l observe.Latency, exposed bool, quiet string) string {
	prefill := obs.Kind == observe.Prefill && obs.Engine == observe.SGLang
	switch {
	case prefill && exposed:
		return "what SGLang records there on a prefill role is something else"
	case prefill:
		return "SGLang records it on the decode role of the pair"
	case l.Count > 0:
		return "the 95th percentile is beyond the last bucket, and the histogram has no sum to take a mean of"
	case exposed:
		return quiet
	case obs.Engine == observe.SGLang:
		return "the engine exposes no such histogram; SGLang does so after its first finished request"
	default:
		return "the engine exposes no such histogram"
	}
}

func ttftOf(s observe.Sample) []observe.Histogram { return s.TTFT }

func itlOf(s observe.Sample) []observe.Histogram { return s.ITL }

func exposes(readings []reading, of func(observe.Sample) []observe.Histogram) bool {
	for _, r := range readings {
		if len(of(r.result.Sample)) > 0 {
			return true
		}
	}
	return false
}
