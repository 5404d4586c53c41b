package scrape

import "gpustack.ai/model-deployment-scaler/internal/observe"

const sglangPrefix = "sglang:"

// sglangFamilies lists the names that SGLang has used. Scheduler series carry ranks; prompt, generation and cached tokens and
// the histograms come from the HTTP process and stand for the whole server.
var sglangFamilies = []family{
	{engine: observe.SGLang, signal: running, name: "sglang:num_running_reqs"},     // 0.4 on
	{engine: observe.SGLang, signal: running, name: "sglang:num_requests_running"}, // 0.3
	{engine: observe.SGLang, signal: waiting, name: "sglang:num_queue_reqs"},       // 0.4 on
	{engine: observe.SGLang, signal: waiting, name: "sglang:num_requests_waiting"}, // 0.3
	{engine: observe.SGLang, signal: waiting, name: "sglang:queue_req"},            // 0.3
	{engine: observe.SGLang, signal: transferQueue, name: "sglang:num_decode_transfer_queue_reqs"},
	{engine: observe.SGLang, signal: kvCacheUsage, name: "sglang:token_usage"},
	{engine: observe.SGLang, signal: counter(observe.PromptTokens), name: "sglang:prompt_tokens_total"},
	{
		engine: observe.SGLang, signal: counter(observe.EffectiveInput), name: "sglang:prefill_effective_tokens_total",
		label: "mode", values: []string{"input"},
	},
	{
		engine: observe.SGLang, signal: counter(observe.EffectiveHits), name: "sglang:prefill_effective_tokens_total",
		label: "mode", values: []string{"device_hit", "host_hit", "storage_hit"},
	},
	{
		engine: observe.SGLang, signal: counter(observe.CachedTokens), name: "sglang:cached_tokens_total",
		label: "cache_source", values: []string{"", "total"}, // others are parts of it (D9)
	},
	{engine: observe.SGLang, signal: counter(observe.GenerationTokens), name: "sglang:generation_tokens_total"},
	{
		engine: observe.SGLang, signal: counter(observe.RealtimeDecode), name: "sglang:realtime_tokens_total",
		label: "mode", values: []string{"decode"},
	},
	{engine: observe.SGLang, signal: ttft, name: "sglang:time_to_first_token_seconds"},
	{engine: observe.SGLang, signal: itl, name: "sglang:inter_token_latency_seconds"},   // 0.4.5 on
	{engine: observe.SGLang, signal: itl, name: "sglang:time_per_output_token_seconds"}, // before
}
