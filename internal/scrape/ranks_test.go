package scrape

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// exposing renders one gauge series per label text, with the values 1, 2, 4, ...: every sum tells which were added.
func exposing(name string, labels ...string) string {
	var b strings.Builder
	for i, l := range labels {
		fmt.Fprintf(&b, "%s{%s} %d\n", name, l, 1<<i)
	}
	return b.String()
}

// The layouts of data, tensor, pipeline and expert parallel engines that are known to exist.
func TestRanksThatRepeatEachOtherCountOnceAndIndependentEnginesAddUp(t *testing.T) {
	const vllm, sglang = "vllm:num_requests_running", "sglang:num_running_reqs"
	tests := []struct {
		name, body    string
		sum, rankZero observe.Value
	}{
		{"no labels at all", exposing(vllm, ""), observe.Known(1), observe.Known(1)},
		{"vLLM before the engine label", exposing(vllm, `model_name="m"`), observe.Known(1), observe.Known(1)},
		{"vLLM with an internal load balancer", exposing(vllm, `engine="0"`, `engine="1"`, `engine="2"`), observe.Known(7), observe.Known(1)},
		{"vLLM rank 3 behind its own listener", exposing(vllm, `engine="3"`), observe.Known(1), observe.Value{}},
		{"SGLang, one tensor rank reports", exposing(sglang, `pp_rank="0",tp_rank="0"`), observe.Known(1), observe.Known(1)},
		{
			"SGLang attention data parallel, a rank each", exposing(sglang, `dp_rank="0",tp_rank="0"`, `dp_rank="1",tp_rank="1"`, `dp_rank="2",tp_rank="2"`),
			observe.Known(7), observe.Known(1),
		},
		{
			"SGLang attention data parallel, every second rank", exposing(sglang, `dp_rank="0",tp_rank="0"`, `dp_rank="1",tp_rank="2"`, `dp_rank="2",tp_rank="4"`),
			observe.Known(7), observe.Known(1),
		},
		{"SGLang data parallel without attention", exposing(sglang, `dp_rank="0",tp_rank="0"`, `dp_rank="1",tp_rank="0"`), observe.Known(3), observe.Known(1)},
		{"SGLang, all schedulers report", exposing(sglang, `tp_rank="2"`, `tp_rank="0"`, `tp_rank="1"`), observe.Known(2), observe.Known(2)},
		{
			"SGLang, all schedulers report, two of each engine",
			exposing(sglang, `dp_rank="0",tp_rank="0"`, `dp_rank="0",tp_rank="1"`, `dp_rank="1",tp_rank="2"`, `dp_rank="1",tp_rank="3"`),
			observe.Known(1 + 4), observe.Known(1),
		},
		{"SGLang, two pipeline stages report", exposing(sglang, `pp_rank="1",tp_rank="0"`, `pp_rank="0",tp_rank="0"`), observe.Known(2), observe.Known(2)},
		{"the pipeline stage counts before the tensor rank", exposing(sglang, `pp_rank="1",tp_rank="0"`, `pp_rank="0",tp_rank="7"`), observe.Known(2), observe.Known(2)},
		{"expert ranks are copies", exposing(sglang, `moe_ep_rank="10"`, `moe_ep_rank="9"`), observe.Known(2), observe.Known(2)},
		{"a second node of a data parallel group", exposing(sglang, `dp_rank="8",tp_rank="8"`, `dp_rank="9",tp_rank="9"`), observe.Known(3), observe.Value{}},
		{"priorities are parts of the total", exposing(sglang, `priority="0"`, `priority=""`, `priority="5"`), observe.Known(2), observe.Known(2)},
		{"priorities without a total add up", exposing(sglang, `priority="0"`, `priority="5"`), observe.Known(3), observe.Known(3)},
		{"of processes the largest value counts", exposing(sglang, `pid="7"`, `pid="8"`), observe.Known(2), observe.Known(2)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for mode, want := range map[DataParallel]observe.Value{Sum: tt.sum, RankZero: tt.rankZero} {
				s, err := decodeIn(mode, []byte(tt.body), "")
				if !want.Valid {
					require.Equal(t, observe.NoEngineSeries, ReasonOf(err), mode)
					require.ErrorContains(t, err, "--data-parallel=rank-zero")
					continue
				}
				require.NoError(t, err)
				require.Equal(t, want, s.Running, mode)
			}
		})
	}
}

func TestKVCacheUsageIsTheMeanOverEnginesOfTheLargestOverProcesses(t *testing.T) {
	s := decode(t, queue+`vllm:kv_cache_usage_perc{engine="0",pid="1"} 0
vllm:kv_cache_usage_perc{engine="0",pid="2"} 0.5
vllm:kv_cache_usage_perc{engine="1",pid="1"} 0.3
vllm:kv_cache_usage_perc{engine="1",pid="2"} NaN
`)
	require.InDelta(t, 0.4, s.KVCacheUsage.Float64, 1e-12)
}

func TestCountersKeepTheirEnginesApartAndTheirRankKnown(t *testing.T) {
	s := decode(t, `sglang:num_running_reqs 1
sglang:prefill_effective_tokens_total{mode="input",dp_rank="0",tp_rank="1"} 5
sglang:prefill_effective_tokens_total{mode="input",dp_rank="0",tp_rank="0"} 10
sglang:prefill_effective_tokens_total{mode="input",dp_rank="1",tp_rank="4"} 20
sglang:prefill_effective_tokens_total{mode="device_hit",dp_rank="0",tp_rank="0"} 100
sglang:prefill_effective_tokens_total{mode="storage_hit",dp_rank="0",tp_rank="0"} 200
sglang:prefill_effective_tokens_total{mode="other",dp_rank="0",tp_rank="0"} 400
`)
	require.Len(t, s.Counters[observe.EffectiveInput], 2)
	require.InDelta(t, 30, total(s, observe.EffectiveInput), 0)
	require.InDelta(t, 300, total(s, observe.EffectiveHits), 0)
	again := decode(t, "sglang:num_running_reqs 1\n"+`sglang:prefill_effective_tokens_total{tp_rank="1",dp_rank="0",mode="input"} 6`+"\n")
	var before observe.Counter
	for _, c := range s.Counters[observe.EffectiveInput] {
		if c.Value == 10 {
			before = c
		}
	}
	after := again.Counters[observe.EffectiveInput][0]
	require.Equal(t, before.Group, after.Group, "it is the same engine")
	require.NotEqual(t, before.Member, after.Member, "read from another rank")
}

func TestHistogramsOfIndependentEnginesStayApart(t *testing.T) {
	s := decode(t, queue+`vllm:inter_token_latency_seconds_bucket{le="0.1",engine="1"} 1
vllm:inter_token_latency_seconds_bucket{le="+Inf",engine="1"} 2
vllm:inter_token_latency_seconds_bucket{le="0.1",engine="0"} 3
vllm:inter_token_latency_seconds_bucket{le="0.05",engine="0"} 2
vllm:inter_token_latency_seconds_bucket{le="+Inf",engine="0"} 4
vllm:inter_token_latency_seconds_sum{engine="0"} 1.5
vllm:inter_token_latency_seconds_count{engine="0"} 4
`)
	require.Len(t, s.ITL, 2)
	byCount := map[float64]observe.Histogram{s.ITL[0].Count: s.ITL[0], s.ITL[1].Count: s.ITL[1]}
	require.Equal(t, []observe.Bucket{{LESeconds: 0.1, Count: 1}}, byCount[2].Buckets)
	require.Equal(t, []observe.Bucket{{LESeconds: 0.05, Count: 2}, {LESeconds: 0.1, Count: 3}}, byCount[4].Buckets)
	require.Equal(t, observe.Known(1.5), byCount[4].SumSeconds)
	require.False(t, byCount[2].SumSeconds.Valid)
}
