package scrape

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

func TestEveryNameAnEngineHasUsedIsReadAndTheNewOneWins(t *testing.T) {
	tests := []struct {
		name, body string
		engine     observe.Engine
		read       func(observe.Sample) observe.Value
		want       float64
	}{
		{"vLLM KV usage up to 0.10", "vllm:num_requests_running 0\nvllm:gpu_cache_usage_perc 0.25\n", observe.VLLM, kvOf, 0.25},
		{"vLLM KV usage of 0.9.2 to 0.10", "vllm:num_requests_running 0\nvllm:gpu_cache_usage_perc 0.25\nvllm:kv_cache_usage_perc 0.5\n", observe.VLLM, kvOf, 0.5},
		{"vLLM time per output token", "vllm:num_requests_running 0\nvllm:time_per_output_token_seconds_count 3\n", observe.VLLM, itlOf, 3},
		{"vLLM with both names", "vllm:num_requests_running 0\nvllm:time_per_output_token_seconds_count 3\nvllm:inter_token_latency_seconds_count 4\n", observe.VLLM, itlOf, 4},
		{"vLLM hits under both names", "vllm:num_requests_running 0\nvllm:gpu_prefix_cache_hits_total 3\nvllm:prefix_cache_hits_total 4\n", observe.VLLM, counterOf(observe.PrefixHits), 4},
		{"vLLM computed prompt tokens", "vllm:num_requests_running 0\nvllm:prompt_tokens_by_source_total{source=\"local_compute\"} 4\nvllm:prompt_tokens_by_source_total{source=\"local_cache_hit\"} 8\n", observe.VLLM, counterOf(observe.LocalCompute), 4},
		{"SGLang 0.3 running", "sglang:num_requests_running{name=\"m\"} 2\n", observe.SGLang, func(s observe.Sample) observe.Value { return s.Running }, 2},
		{"SGLang 0.3 waiting", "sglang:num_requests_waiting 2\nsglang:queue_req 2\n", observe.SGLang, func(s observe.Sample) observe.Value { return s.Waiting }, 2},
		{"SGLang 0.3 waiting under its other name", "sglang:queue_req 2\n", observe.SGLang, func(s observe.Sample) observe.Value { return s.Waiting }, 2},
		{"SGLang 0.4 waiting", "sglang:num_queue_reqs 3\nsglang:queue_req 2\n", observe.SGLang, func(s observe.Sample) observe.Value { return s.Waiting }, 3},
		{"SGLang transfer queue", "sglang:num_decode_transfer_queue_reqs 3\n", observe.SGLang, func(s observe.Sample) observe.Value { return s.TransferQueue }, 3},
		{"SGLang 0.4.3 inter-token latency", "sglang:time_per_output_token_seconds_count 3\n", observe.SGLang, itlOf, 3},
		{"SGLang inter-token latency", "sglang:time_per_output_token_seconds_count 3\nsglang:inter_token_latency_seconds_count 4\n", observe.SGLang, itlOf, 4},
		{"SGLang cached tokens before sources", "sglang:num_running_reqs 0\nsglang:cached_tokens_total 5\n", observe.SGLang, counterOf(observe.CachedTokens), 5},
		{"SGLang cached tokens by source", "sglang:num_running_reqs 0\nsglang:cached_tokens_total{cache_source=\"device\"} 5\nsglang:cached_tokens_total{cache_source=\"total\"} 6\n", observe.SGLang, counterOf(observe.CachedTokens), 6},
		{"SGLang generation by kind of request", "sglang:generation_tokens_total{is_streaming=\"true\"} 5\nsglang:generation_tokens_total{is_streaming=\"false\"} 6\n", observe.SGLang, counterOf(observe.GenerationTokens), 11},
		{"SGLang realtime tokens", "sglang:realtime_tokens_total{mode=\"decode\"} 5\nsglang:realtime_tokens_total{mode=\"prefill_compute\"} 6\n", observe.SGLang, counterOf(observe.RealtimeDecode), 5},
		{"the time the process started", "vllm:num_requests_running 0\nprocess_start_time_seconds 1.79601076985e+09\n", observe.VLLM, func(s observe.Sample) observe.Value { return s.ProcessStart }, 1796010769.85},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := decode(t, tt.body)
			require.Equal(t, tt.engine, s.Engine)
			require.Equal(t, observe.Known(tt.want), tt.read(s))
		})
	}
}

func kvOf(s observe.Sample) observe.Value { return s.KVCacheUsage }

func itlOf(s observe.Sample) observe.Value { return observe.Known(s.ITL[0].Count) }

func counterOf(k observe.CounterKind) func(observe.Sample) observe.Value {
	return func(s observe.Sample) observe.Value { return observe.Known(total(s, k)) }
}

func TestOfTwoEnginesTheOneThatTheDeploymentNamesIsRead(t *testing.T) {
	const both = "vllm:num_requests_running 1\nsglang:num_running_reqs 2\n"
	tests := []struct {
		name, named, body string
		want              observe.Engine
	}{
		{"in the case of the deployment", "SGLANG", both, observe.SGLang},
		{"the other one", "vllm", both, observe.VLLM},
		{"no name", "", both, observe.VLLM},
		{"a name that nobody knows", "llama.cpp", both, observe.VLLM},
		{"a wrong name is only a hint", "sglang", "vllm:num_requests_running 1\n", observe.VLLM},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			result, err := NewDecoder(Sum).Decode([]byte(tt.body), "", EngineNamed(tt.named))
			require.NoError(t, err)
			require.Equal(t, tt.want, result.Sample.Engine)
		})
	}
}

func TestTheDocsNameEverySeriesThatIsRead(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "engine-signals.md"))
	require.NoError(t, err)
	for _, f := range families {
		require.Contains(t, string(text), f.name)
	}
}
