package scrape

import "gpustack.ai/model-deployment-scaler/internal/observe"

const (
	vllmPrefix = "vllm:"
	// vllmOldHits counted blocks, not tokens, before vLLM 0.9; its help text says which.
	vllmOldHits     = "vllm:gpu_prefix_cache_hits_total"
	vllmOldHitsHelp = "# HELP vllm:gpu_prefix_cache_hits"
	vllmCacheConfig = "vllm:cache_config_info"
)

// vllmFamilies lists the names that vLLM has used. num_requests_waiting includes requests that wait for a KV transfer, so
// there is no transfer queue; num_requests_waiting_by_reason repeats it.
var vllmFamilies = []family{
	{engine: observe.VLLM, signal: running, name: "vllm:num_requests_running"},
	{engine: observe.VLLM, signal: waiting, name: "vllm:num_requests_waiting"},
	{engine: observe.VLLM, signal: kvCacheUsage, name: "vllm:kv_cache_usage_perc"},  // 0.9.2 on
	{engine: observe.VLLM, signal: kvCacheUsage, name: "vllm:gpu_cache_usage_perc"}, // up to 0.10
	{engine: observe.VLLM, signal: counter(observe.PromptTokens), name: "vllm:prompt_tokens_total"},
	{
		engine: observe.VLLM, signal: counter(observe.LocalCompute), name: "vllm:prompt_tokens_by_source_total", // 0.16 on
		label: "source", values: []string{"local_compute"},
	},
	{engine: observe.VLLM, signal: counter(observe.PrefixHits), name: "vllm:prefix_cache_hits_total"}, // 0.9.2 on
	{engine: observe.VLLM, signal: counter(observe.PrefixHits), name: vllmOldHits},                    // 0.8 to 0.10
	{engine: observe.VLLM, signal: counter(observe.GenerationTokens), name: "vllm:generation_tokens_total"},
	{engine: observe.VLLM, signal: ttft, name: "vllm:time_to_first_token_seconds"},
	{engine: observe.VLLM, signal: itl, name: "vllm:inter_token_latency_seconds"},   // 0.10.2 on
	{engine: observe.VLLM, signal: itl, name: "vllm:time_per_output_token_seconds"}, // up to 0.11
}
