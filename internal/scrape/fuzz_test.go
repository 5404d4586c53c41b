package scrape

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// FuzzDecode shows that no bytes make a panic, a negative or a number that is none, and that what a decoder has met before
// changes nothing.
func FuzzDecode(f *testing.F) {
	for _, file := range []string{"sglang-0.5.15-tp8", "vllm-v1-0.30-openmetrics", "vllm-v1-0.10.2"} {
		body, contentType := read(f, "testdata/"+file+".prom")
		f.Add(body, contentType == openMetrics, false)
	}
	for _, seed := range []string{
		queue, queue + "# EOF", "vllm:num_requests_running{a=\"\n", "sglang:num_running_reqs{le=\"x\"", "vllm:num_requests_running{=\"\\\"} NaN",
		"vllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} 1e999\n", strings.Repeat("sglang:token_usage{tp_rank=\"9999\"} 1\n", 2),
		`vllm:num_requests_running{"le"="1",tp_rank="-1"} 0x1p3 # {} 1` + "\n",
	} {
		f.Add([]byte(seed), false, false)
		f.Add([]byte(seed), true, true)
	}
	experienced := map[DataParallel]*Decoder{Sum: NewDecoder(Sum), RankZero: NewDecoder(RankZero)}
	f.Fuzz(func(t *testing.T, body []byte, om, rankZero bool) {
		contentType, mode := "", Sum
		if om {
			contentType = openMetrics
		}
		if rankZero {
			mode = RankZero
		}
		s, err := decodeIn(mode, body, contentType)
		again, errAgain := experienced[mode].Decode(body, contentType, "")
		require.Equal(t, s, again.Sample)
		require.Equal(t, err == nil, errAgain == nil)
		if err != nil {
			require.NotEmpty(t, ReasonOf(err))
			require.LessOrEqual(t, len(err.Error()), 256)
			return
		}
		requireSane(t, s)
	})
}

func requireSane(t *testing.T, s observe.Sample) {
	t.Helper()
	require.NotEmpty(t, s.Engine)
	for _, v := range []observe.Value{s.Running, s.Waiting, s.TransferQueue, s.KVCacheUsage, s.ProcessStart} {
		require.True(t, !v.Valid || (v.Float64 >= 0 && v.Float64 < 1e300), "%v", v)
	}
	if s.InvalidCounter != "" {
		return // not to be compared with anything
	}
	for _, kind := range s.Counters {
		for _, c := range kind {
			require.True(t, usable(c.Value))
		}
	}
	for _, h := range append(s.TTFT, s.ITL...) {
		require.True(t, usable(h.Count))
		last := -1.0
		for _, b := range h.Buckets {
			require.True(t, usable(b.Count))
			require.Greater(t, b.LESeconds, last)
			last = b.LESeconds
		}
	}
}
