package sim

import (
	"fmt"
	"math"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// number is a gauge of the scheduler.
type number struct {
	name, help string
	value      float64
}

// gauges of the scheduler: those that the model moves, and the constants of its configuration.
func (w *sglangPage) gauges(e *Engine, p Page) {
	for _, n := range sglangState(e, p) {
		w.gauge("sglang:"+n.name, n.help, w.scheduler, n.value)
	}
	for _, n := range sglangConstants(e.cap) {
		w.gauge("sglang:"+n.name, n.help, w.scheduler, n.value)
	}
	if e.kind == observe.Prefill {
		w.gauge("sglang:hicache_host_used_tokens", "Used tokens of the cache in host memory.", w.scheduler, 0)
		w.gauge("sglang:hicache_host_total_tokens", "Tokens of the cache in host memory.", w.scheduler, 0)
	}
}

func sglangState(e *Engine, p Page) []number {
	used, total := float64(e.kvTokens()), float64(e.cap.KVTokens)
	queued, prealloc := sglangQueues(e)
	lifetime := math.Max(1, p.Now.Sub(p.Started).Seconds())
	hitRate := float64(e.counts.Hit) / math.Max(1, float64(e.counts.Queried))
	return []number{
		{"num_running_reqs", "Running requests.", float64(e.Running())},
		{"num_queue_reqs", "Requests in the waiting queue.", queued},
		{"num_used_tokens", "Used tokens of the KV cache.", used},
		{"token_usage", "Used part of the KV cache.", e.KVUsage()},
		{"full_token_usage", "Used part of the KV cache of full attention.", e.KVUsage()},
		{"gen_throughput", "Generated tokens per second.", math.Min(e.requestRate()*float64(len(e.running)), e.cap.DecodeTokensPerSecond)},
		{"cache_hit_rate", "Part of prompt tokens found in the cache.", hitRate},
		{"utilization", "Part of the lifetime spent in forward passes.", math.Min(1, (e.counts.DecodeSeconds+e.counts.PrefillSeconds)/lifetime)},
		{"decode_sum_seq_lens", "Tokens of all running sequences.", used},
		{"kv_used_tokens", "Used tokens of the KV pool.", used},
		{"kv_available_tokens", "Free tokens of the KV pool.", math.Max(0, total-used)},
		{"fwd_occupancy", "Part of the time in which the accelerator computes.", math.NaN()},
		{"num_prefill_bootstrap_queue_reqs", "Requests in the bootstrap queue of prefill.", 0},
		{"num_prefill_inflight_queue_reqs", "Requests whose KV cache is being sent.", 0},
		{"num_decode_prealloc_queue_reqs", "Requests that wait for KV memory of decode.", prealloc},
		{"num_decode_transfer_queue_reqs", "Requests whose KV cache is being received.", float64(e.Transferring())},
	}
}

// sglangQueues: a decode engine keeps requests without KV memory in a queue of their own.
func sglangQueues(e *Engine) (queued, prealloc float64) {
	waiting := float64(e.queue.len())
	if e.kind == observe.Decode && e.full {
		return 0, waiting
	}
	return waiting, 0
}

func sglangConstants(c Capacity) []number {
	const pageSize = 64
	return []number{
		{"num_grammar_queue_reqs", "Requests that wait for their grammar.", 0},
		{"spec_accept_length", "Mean accepted length of speculation.", 0},
		{"spec_accept_rate", "Mean accepted part of speculation.", 0},
		{"spec_cap_length", "Longest speculation.", 0},
		{"spec_block_accept_length", "Mean accepted length of a block.", 0},
		{"spec_num_steps", "Steps of speculation.", 0},
		{"spec_num_draft_tokens", "Draft tokens of speculation.", 0},
		{"max_total_num_tokens", "Most tokens of the KV pool.", float64(c.KVTokens)},
		{"swa_token_usage", "Used part of the sliding-window pool.", 0},
		{"mamba_usage", "Used part of the state-space pool.", 0},
		{"new_token_ratio", "Expected part of the tokens still to come.", .7},
		{"is_cuda_graph", "Whether the last pass used a graph.", 1},
		{"pending_prealloc_token_usage", "Part of the KV pool promised to waiting requests.", 0},
		{"num_unique_running_routing_keys", "Different routing keys among running requests.", 0},
		{"kv_evictable_tokens", "Tokens of the KV pool that could be evicted.", 0},
		{"swa_available_tokens", "Free tokens of the sliding-window pool.", 0},
		{"swa_evictable_tokens", "Evictable tokens of the sliding-window pool.", 0},
		{"swa_used_tokens", "Used tokens of the sliding-window pool.", 0},
		{"mamba_available_tokens", "Free tokens of the state-space pool.", 0},
		{"mamba_evictable_tokens", "Evictable tokens of the state-space pool.", 0},
		{"mamba_used_tokens", "Used tokens of the state-space pool.", 0},
		{"weight_memory_usage_gb", "Memory of the weights in GB.", 15.3},
		{"kv_cache_memory_usage_gb", "Memory of the KV pool in GB.", 7e-5 * float64(c.KVTokens)},
		{"page_size", "Tokens of a page.", pageSize},
		{"num_pages", "Pages of the KV pool.", math.Floor(float64(c.KVTokens) / pageSize)},
		{"context_len", "Longest context in tokens.", 131072},
		{"startup_available_gpu_memory_gb", "Free memory of the accelerator after the start in GB.", 4.2},
	}
}

// routingKeys are gauges that look like buckets: requests by how many share a routing key.
func (w *sglangPage) routingKeys() {
	bounds := []string{"0", "1", "2", "3", "5", "7", "10", "20", "50", "100", "200", "+Inf"}
	for _, name := range []string{"sglang:routing_key_running_req_count", "sglang:routing_key_all_req_count"} {
		w.family(name, "gauge", "Requests by how many of them share a routing key.")
		for n := range len(bounds) - 1 {
			labels := fmt.Sprintf(`%s,gt="%s",le="%s",%s,%s`, w.kind, bounds[n], bounds[n+1], w.model, w.ranks)
			w.sample(name, labels, 0)
		}
	}
}
