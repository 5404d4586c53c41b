package sim

import (
	"math"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// sglangPage writes the page of an SGLang server of 2026 with one reporting rank. Series of the scheduler carry ranks, those
// of the tokenizer do not.
type sglangPage struct {
	writer
	kind, model, ranks string
	scheduler, server  string
}

func (e *Engine) appendSGLang(dst []byte, p Page) []byte {
	w := &sglangPage{writer: writer{b: dst, sumFirst: true}}
	w.kind = `engine_type="` + engineType(e.kind) + `"`
	w.model = `model_name="` + quote(p.Model) + `"`
	w.ranks = `moe_ep_rank="0",pp_rank="0",tp_rank="0"`
	w.server = join(w.kind, w.model)
	w.scheduler = join(w.server, w.ranks)
	w.pidGauges()
	w.startup()
	w.schedulerHistograms(e)
	w.schedulerCounters(e)
	w.tokenizerCounters(e)
	w.gauges(e, p)
	w.routingKeys()
	w.tokenizerHistograms(e)
	return w.b
}

func engineType(kind observe.RoleKind) string {
	switch kind {
	case observe.Prefill:
		return "prefill"
	case observe.Decode:
		return "decode"
	}
	return "unified"
}

// pidGauges are those that every process prints for itself.
func (w *sglangPage) pidGauges() {
	labels := w.server + `,moe_ep_rank="0",pid="171",pp_rank="0",tp_rank="0"`
	w.gauge("sglang:num_retracted_reqs", "Requests that had to leave the batch.", labels, 0)
	w.gauge("sglang:num_paused_reqs", "Requests paused for new weights.", labels, 0)
}

func (w *sglangPage) startup() {
	const name = "sglang:startup_time_seconds"
	w.family(name, "gauge", "Time of the phases of the start in seconds.")
	for _, phase := range []struct {
		name    string
		seconds float64
	}{{"load_weight", 31.4}, {"kv_cache_allocation", 2.1}, {"scheduler_e2e", 48.6}, {"tokenizer_e2e", 51.2}} {
		w.sample(name, w.server+`,phase="`+phase.name+`"`, phase.seconds)
	}
}

// counter writes a counter of the scheduler, one series for each value of a label that sorts right behind the engine type
// (or before it).
func (w *sglangPage) counter(name, help, label string, values []string, counts ...float64) {
	w.family(name, "counter", help)
	for n, value := range values {
		pair := label + `="` + value + `"`
		if label < "engine_type" {
			w.sample(name, pair+","+w.scheduler, counts[n])
			continue
		}
		w.sample(name, w.kind+","+pair+","+w.model+","+w.ranks, counts[n])
	}
}

func (w *sglangPage) schedulerCounters(e *Engine) {
	c := e.counts
	computed, hit := float64(c.Computed), float64(c.Prompt-c.Computed)
	if e.kind == observe.Decode {
		hit = 0
	}
	decoded := math.Floor(c.Generated + nearly)
	w.counter("sglang:realtime_tokens_total", "Tokens processed, as batches go by.", "mode",
		[]string{"prefill_compute", "prefill_cache", "decode"}, computed, hit, decoded)
	w.counter("sglang:cuda_graph_passes_total", "Forward passes by use of graphs.", "mode",
		[]string{"decode_cuda_graph", "decode_none"}, float64(e.hist.iterationTokens.Total()), float64(c.Finished))
	w.counter("sglang:prefill_effective_tokens_total", "Tokens of scheduled prompts by where they came from.", "mode",
		[]string{"input", "device_hit", "host_hit", "storage_hit"}, computed, hit, 0, 0)
	w.counter("sglang:forward_execution_seconds_total", "Time of forward passes in seconds.", "category",
		[]string{"extend", "decode"}, c.PrefillSeconds, c.DecodeSeconds)
	w.family("sglang:evicted_tokens_total", "counter", "Tokens evicted from the KV cache.")
	w.sample("sglang:evicted_tokens_total", w.scheduler, math.Max(0, float64(c.FinishedPrompt)-float64(e.cap.KVTokens)))
}

// tokenizerCounters move when a request finishes; before the first one they are not there.
func (w *sglangPage) tokenizerCounters(e *Engine) {
	c := e.counts
	if c.Finished == 0 {
		return
	}
	streaming := w.kind + `,is_streaming="true",` + w.model
	for _, f := range []struct {
		name, help, labels string
		value              uint64
	}{
		{"sglang:prompt_tokens_total", "Prompt tokens of finished requests.", streaming, c.FinishedPrompt},
		{"sglang:generation_tokens_total", "Generated tokens of finished requests.", streaming, c.FinishedGenerated},
		{"sglang:num_requests_total", "Finished requests.", streaming, c.Finished},
		{"sglang:cached_tokens_total", "Cached prompt tokens of finished requests.", `cache_source="device",` + w.server, c.FinishedHit},
		{"sglang:num_so_requests_total", "Requests for structured output.", w.server, 0},
		{"sglang:num_aborted_requests_total", "Requests that were aborted.", w.server, 0},
	} {
		w.family(f.name, "counter", f.help)
		w.sample(f.name, f.labels, float64(f.value))
	}
}

func (w *sglangPage) histogram(name, help string, h *Histogram) {
	w.family(name, "histogram", help)
	w.buckets(name, w.kind, join(w.model, w.ranks), h)
}

func (w *sglangPage) schedulerHistograms(e *Engine) {
	if e.kind != observe.Server {
		w.transfers(e)
	}
	w.histogram("sglang:queue_time_seconds", "Time in the queue in seconds.", e.hist.queue)
	const name = "sglang:per_stage_req_latency_seconds"
	w.family(name, "histogram", "Time of a request in a stage in seconds.")
	for _, s := range sglangStages(e) {
		w.buckets(name, w.kind, w.model+`,moe_ep_rank="0",pp_rank="0",stage="`+s.name+`",tp_rank="0"`, s.histogram)
	}
	w.histogram("sglang:eviction_duration_seconds", "Time of an eviction in seconds.", newHistogram(sglangEviction))
}

type sglangStageTime struct {
	name      string
	histogram *Histogram
}

func sglangStages(e *Engine) []sglangStageTime {
	waiting := newHistogram(sglangStage)
	refill(waiting, e.hist.queue, 1)
	none := newHistogram(sglangStage)
	switch e.kind {
	case observe.Prefill:
		return []sglangStageTime{{"prefill_bootstrap", waiting}, {"prefill_forward", e.hist.prefill},
			{"prefill_transfer_kv_cache", none}, {"prefill_chunked_prefill", none}}
	case observe.Decode:
		return []sglangStageTime{{"decode_prepare", none}, {"decode_bootstrap", waiting},
			{"decode_waiting", none}, {"decode_transferred", e.hist.prefill}}
	}
	return []sglangStageTime{{"prefill_waiting", waiting}, {"prefill_forward", e.hist.prefill}, {"decode_forward", e.hist.decode}}
}

// transfers of KV cache between the halves of a pair, at 70 KB a token.
func (w *sglangPage) transfers(e *Engine) {
	const tokenMB = .07
	speed := newHistogram([]float64{.1, .5, 1, 5, 10, 25, 50, 100, 200, 400})
	speed.Observe(tokenMB/1000*e.cap.PrefillTokensPerSecond, e.counts.Finished)
	setUp := newHistogram([]float64{1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500})
	setUp.Observe(8, e.counts.Finished)
	latency := newHistogram([]float64{1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000})
	refill(latency, e.hist.prefill, 1000)
	size := newHistogram([]float64{1, 5, 10, 50, 100, 500, 1000, 5000, 10000})
	refill(size, e.hist.promptTokens, tokenMB)
	w.histogram("sglang:kv_transfer_speed_gb_s", "Speed of KV transfers in GB/s.", speed)
	w.histogram("sglang:kv_transfer_latency_ms", "Time of KV transfers in milliseconds.", latency)
	w.histogram("sglang:kv_transfer_total_mb", "Size of KV transfers in MB.", size)
	w.histogram("sglang:kv_transfer_bootstrap_ms", "Time to set up KV transfers in milliseconds.", setUp)
	w.histogram("sglang:kv_transfer_alloc_ms", "Time to find room for KV transfers in milliseconds.", setUp)
}

// tokenizerHistograms appear with the first finished request. A prefill engine has no time to first token: the decode half
// of the pair keeps it.
func (w *sglangPage) tokenizerHistograms(e *Engine) {
	if e.counts.Finished == 0 {
		return
	}
	if e.kind != observe.Prefill {
		w.streaming("sglang:time_to_first_token_seconds", "Time to the first token in seconds.", e.hist.firstToken)
	}
	w.streaming("sglang:e2e_request_latency_seconds", "Time of a whole request in seconds.", e.hist.endToEnd)
	for _, f := range []struct {
		name, help string
		h          *Histogram
	}{
		{"sglang:inter_token_latency_seconds", "Time between two tokens in seconds.", e.hist.perToken},
		{"sglang:prompt_tokens_histogram", "Prompt tokens of a request.", e.hist.promptTokens},
		{"sglang:uncached_prompt_tokens_histogram", "Prompt tokens of a request that were not cached.", e.hist.computedTokens},
		{"sglang:generation_tokens_histogram", "Generated tokens of a request.", e.hist.generatedTokens},
	} {
		w.family(f.name, "histogram", f.help)
		w.buckets(f.name, w.kind, w.model, f.h)
	}
}

func (w *sglangPage) streaming(name, help string, h *Histogram) {
	w.family(name, "histogram", help)
	w.buckets(name, w.kind+`,is_streaming="true"`, w.model, h)
}
