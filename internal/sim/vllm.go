package sim

import (
	"fmt"
	"math"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// vllmPage writes the page of a vLLM server of 2026 with one engine.
type vllmPage struct {
	writer
	engine, labels, model string
	created               float64
}

func (e *Engine) appendVLLM(dst []byte, p Page) []byte {
	w := &vllmPage{writer: writer{b: dst}, engine: `engine="0"`, model: `model_name="` + quote(p.Model) + `"`}
	w.labels = join(w.engine, w.model)
	w.created = float64(p.Started.UnixNano()) / 1e9
	w.python(p, e.counts.DecodeSeconds+e.counts.PrefillSeconds)
	w.load(e)
	w.counters(e)
	w.histograms(e)
	w.cacheConfig(e.cap.KVTokens)
	w.http(e)
	return w.b
}

func (w *vllmPage) python(p Page, busy float64) {
	for _, f := range []struct {
		name, help string
		values     [3]float64
	}{
		{"python_gc_objects_collected_total", "Objects that the garbage collector took back", [3]float64{24571, 3129, 890}},
		{"python_gc_objects_uncollectable_total", "Objects that the garbage collector could not take back", [3]float64{}},
		{"python_gc_collections_total", "Runs of the garbage collector by generation", [3]float64{1422, 129, 11}},
	} {
		w.family(f.name, "counter", f.help)
		for generation, value := range f.values {
			w.sample(f.name, fmt.Sprintf(`generation="%d"`, generation), value)
		}
	}
	w.gauge("python_info", "Version of the Python platform", `implementation="CPython",major="3",minor="12",patchlevel="11",version="3.12.11"`, 1)
	w.gauge("process_virtual_memory_bytes", "Size of the virtual memory in bytes", "", 2.3617011712e+10)
	w.gauge("process_resident_memory_bytes", "Size of the resident memory in bytes", "", 1.1241431e+09)
	w.gauge("process_start_time_seconds", "Start of the process in seconds since the epoch", "", w.created)
	w.family("process_cpu_seconds_total", "counter", "CPU time of the process in seconds")
	w.sample("process_cpu_seconds_total", "", math.Round(100*(p.Now.Sub(p.Started).Seconds()*.05+busy))/100)
	w.gauge("process_open_fds", "Open file descriptors", "", 74)
	w.gauge("process_max_fds", "Limit of open file descriptors", "", 1048576)
}

// load is the state of the scheduler and the KV cache.
func (w *vllmPage) load(e *Engine) {
	w.gauge("vllm:num_requests_running", "Requests in the running batch.", w.labels, float64(e.Running()))
	w.gauge("vllm:num_requests_waiting", "Requests that wait to be processed.", w.labels, float64(e.Waiting()))
	w.family("vllm:num_requests_waiting_by_reason", "gauge", "Waiting requests by why they wait.")
	w.sample("vllm:num_requests_waiting_by_reason", w.labels+`,reason="capacity"`, float64(e.queue.len()))
	w.sample("vllm:num_requests_waiting_by_reason", w.labels+`,reason="deferred"`, float64(e.Transferring()))
	w.family("vllm:engine_sleep_state", "gauge", "Whether the engine is awake, or how deep it sleeps.")
	for _, state := range []struct {
		name  string
		value float64
	}{{"awake", 1}, {"weights_offloaded", 0}, {"discard_all", 0}} {
		w.sample("vllm:engine_sleep_state", w.labels+`,sleep_state="`+state.name+`"`, state.value)
	}
	w.gauge("vllm:kv_cache_usage_perc", "Used part of the KV cache; 1 is all of it.", w.labels, e.KVUsage())
}

// counter writes a counter and the gauge that tells since when it counts.
func (w *vllmPage) counter(base, help string, value float64) {
	w.family(base+"_total", "counter", help)
	w.sample(base+"_total", w.labels, value)
	w.since(base, help, w.labels)
}

// split writes a counter with one more label.
func (w *vllmPage) split(base, help string, labels []string, values []float64) {
	w.family(base+"_total", "counter", help)
	for n, value := range values {
		w.sample(base+"_total", labels[n], value)
	}
	w.since(base, help, labels...)
}

func (w *vllmPage) since(base, help string, labels ...string) {
	w.family(base+"_created", "gauge", help)
	for _, l := range labels {
		w.sample(base+"_created", l, w.created)
	}
}

func (w *vllmPage) counters(e *Engine) {
	c := e.counts
	w.counter("vllm:prefix_cache_queries", "Tokens looked up in the prefix cache.", float64(c.Queried))
	w.counter("vllm:prefix_cache_hits", "Looked up cached tokens that were found.", float64(c.Hit))
	w.counter("vllm:external_prefix_cache_queries", "Tokens looked up in the external cache.", 0)
	w.counter("vllm:external_prefix_cache_hits", "Tokens found in the external cache.", 0)
	w.counter("vllm:mm_cache_queries", "Items looked up in the multi-modal cache.", 0)
	w.counter("vllm:mm_cache_hits", "Items found in the multi-modal cache.", 0)
	w.counter("vllm:estimated_flops_per_gpu", "Estimated floating point operations of one accelerator.", 1.5e10*(float64(c.Computed)+c.Generated))
	w.counter("vllm:estimated_read_bytes_per_gpu", "Estimated bytes that one accelerator has read.", 1.6e10*c.DecodeSeconds)
	w.counter("vllm:estimated_write_bytes_per_gpu", "Estimated bytes that one accelerator has written.", 1.2e5*(float64(c.Computed)+c.Generated))
	w.counter("vllm:num_preemptions", "Requests that had to give up their place in the batch.", 0)
	w.counter("vllm:prompt_tokens", "Tokens of prefilled prompts.", float64(c.Prompt))
	w.counter("vllm:generation_tokens", "Generated tokens.", math.Floor(c.Generated+nearly))
	local, transferred := float64(c.Prompt-c.Computed), 0.0
	if e.kind == observe.Decode {
		local, transferred = 0, local
	}
	w.split("vllm:prompt_tokens_by_source", "Tokens of prefilled prompts by where they came from.",
		[]string{w.labels + `,source="local_compute"`, w.labels + `,source="local_cache_hit"`, w.labels + `,source="external_kv_transfer"`},
		[]float64{float64(c.Computed), local, transferred})
	w.counter("vllm:prompt_tokens_cached", "Tokens of prompts found in any cache.", local+transferred)
	labels := make([]string, 0, 5)
	for _, reason := range []string{"stop", "length", "abort", "error", "repetition"} {
		labels = append(labels, w.engine+`,finished_reason="`+reason+`",`+w.model)
	}
	w.split("vllm:request_success", "Finished requests by how they ended.", labels, []float64{float64(c.Finished), 0, 0, 0, 0})
}

func (w *vllmPage) histogram(name, help string, h *Histogram) {
	w.family(name, "histogram", help)
	w.buckets(name, w.engine, w.model, h)
	w.since(name, help, w.labels)
}

func (w *vllmPage) histograms(e *Engine) {
	h, ones := e.hist, newHistogram([]float64{1, 2, 5, 10, 20})
	preemptions := newHistogram([]float64{1, 2, 3, 4, 5, 10, 20})
	ones.Observe(1, e.counts.Finished)
	preemptions.Observe(0, e.counts.Finished)
	w.histogram("vllm:request_prompt_tokens", "Prompt tokens of a request.", h.promptTokens)
	w.histogram("vllm:request_generation_tokens", "Generated tokens of a request.", h.generatedTokens)
	w.histogram("vllm:iteration_tokens_total", "Tokens of one engine step.", h.iterationTokens)
	w.histogram("vllm:request_max_num_generation_tokens", "Most tokens that a request may generate.", h.generatedTokens)
	w.histogram("vllm:request_params_n", "Parameter n of a request.", ones)
	w.histogram("vllm:request_params_max_tokens", "Parameter max_tokens of a request.", h.generatedTokens)
	w.histogram("vllm:time_to_first_token_seconds", "Time to the first token in seconds.", h.firstToken)
	w.histogram("vllm:inter_token_latency_seconds", "Time between two tokens in seconds.", h.perToken)
	w.histogram("vllm:request_time_per_output_token_seconds", "Mean time of a request's tokens in seconds.", h.requestPerToken)
	w.histogram("vllm:e2e_request_latency_seconds", "Time of a whole request in seconds.", h.endToEnd)
	w.histogram("vllm:request_queue_time_seconds", "Time that a request waited in seconds.", h.queue)
	w.histogram("vllm:request_inference_time_seconds", "Time that a request ran in seconds.", h.inference)
	w.histogram("vllm:request_prefill_time_seconds", "Time of a request's prefill in seconds.", h.prefill)
	w.histogram("vllm:request_decode_time_seconds", "Time of a request's decoding in seconds.", h.decode)
	w.histogram("vllm:request_prefill_kv_computed_tokens", "Prompt tokens of a request that were computed.", h.computedTokens)
	w.histogram("vllm:request_num_preemptions", "How often a request was preempted.", preemptions)
}

func (w *vllmPage) cacheConfig(tokens int) {
	w.gauge("vllm:cache_config_info", "Configuration of the cache.", fmt.Sprintf(`_block_size_resolved="True",block_size="16",cache_dtype="auto",`+
		`calculate_kv_scales="False",cpu_kvcache_space_bytes="None",cpu_offload_gb="0",enable_prefix_caching="True",%s,`+
		`gpu_memory_utilization="0.9",is_attention_free="False",kv_cache_max_concurrency="13.41",kv_cache_memory_bytes="None",`+
		`kv_cache_size_tokens="%d",kv_offloading_backend="native",kv_offloading_size="None",kv_sharing_fast_prefill="False",`+
		`mamba_block_size="None",mamba_cache_dtype="auto",mamba_cache_mode="none",mamba_page_size_padded="None",`+
		`mamba_ssm_cache_dtype="auto",num_cpu_blocks="None",num_gpu_blocks="%d",num_gpu_blocks_override="None",`+
		`num_gpu_blocks_per_layer="None",prefix_caching_hash_algo="sha256",sliding_window="None",swap_space="4",`+
		`swap_space_bytes="4294967296",user_specified_block_size="False"`, w.engine, tokens, tokens/16), 1)
}
