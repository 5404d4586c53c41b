package scrape

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

const openMetrics = "application/openmetrics-text; version=1.0.0; charset=utf-8"

// queue is a minimal exposition with three running and five waiting requests.
const queue = "vllm:num_requests_running 3\nvllm:num_requests_waiting 5\n"

// decodeIn decodes twice: a body reads the same when its series are known as when they are not.
func decodeIn(mode DataParallel, body []byte, contentType string) (observe.Sample, error) {
	d := NewDecoder(mode)
	first, err := d.Decode(body, contentType, "")
	again, errAgain := d.Decode(body, contentType, "")
	if !reflect.DeepEqual(first, again) || (err == nil) != (errAgain == nil) {
		return first.Sample, fmt.Errorf("decoded again it reads differently: %+v (%w), at first %+v (%w)", again, errAgain, first, err)
	}
	return first.Sample, err
}

func decode(t *testing.T, body string) observe.Sample {
	t.Helper()
	s, err := decodeIn(Sum, []byte(body), "")
	require.NoError(t, err)
	return s
}

// total is the sum of a counter over the independent engines.
func total(s observe.Sample, k observe.CounterKind) float64 {
	sum := 0.0
	for _, c := range s.Counters[k] {
		sum += c.Value
	}
	return sum
}

func TestBodiesThatReadAsThreeRunningAndFiveWaiting(t *testing.T) {
	tests := []struct{ name, contentType, body string }{
		{"plain text", "text/plain; version=0.0.4; charset=utf-8", queue},
		{"no content type reads as text", "", queue},
		{"OpenMetrics", openMetrics, queue + "# EOF\n"},
		{"OpenMetrics whose end mark has no line end", openMetrics, queue + "# EOF"},
		{"nothing counts after the end mark", openMetrics, queue + "# EOF\nvllm:num_requests_running 9\n"},
		{"no line end at the end", "", strings.TrimSuffix(queue, "\n")},
		{"carriage returns", "", strings.ReplaceAll("# TYPE vllm:num_requests_running gauge\n"+queue, "\n", "\r\n")},
		{"blank lines and leading spaces", "", "\n  " + queue + "\n\n"},
		{"timestamps are ignored", "", strings.ReplaceAll(queue, "\n", " 1395066363000\n")},
		{"somebody else's bad byte", "", "http_requests_total{host=\"\xc0\xa7\"} 1\n" + queue},
		{"somebody else's garbage", "", "}{ what\nvllm:unknown{a= 1\n# TYPE\n" + queue},
		{"somebody else's long label", "", `x{a="` + strings.Repeat("y", 1<<20) + "\"} 1\n" + queue},
		{"somebody else's exemplar in text", "", "x_bucket{le=\"1\"} 8 # {a=\"b\"} 0.3\n" + queue},
		{"labels with escapes", "", `vllm:num_requests_running{model_name="a\"},{\\"} 3` + "\nvllm:num_requests_waiting 5\n"},
		{"spaces inside the braces", "", "vllm:num_requests_running{ engine = \"0\" , } 3\nvllm:num_requests_waiting 5\n"},
		{"two models add up", "", `vllm:num_requests_running{model_name="a"} 1` + "\n" + `vllm:num_requests_running{model_name="b"} 2` + "\nvllm:num_requests_waiting 5\n"},
		{"scientific notation", "", "vllm:num_requests_running 3e+00\nvllm:num_requests_waiting 0.5e1\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := decodeIn(Sum, []byte(tt.body), tt.contentType)
			require.NoError(t, err)
			require.Equal(t, observe.VLLM, s.Engine)
			require.Equal(t, observe.Known(3), s.Running)
			require.Equal(t, observe.Known(5), s.Waiting)
			require.False(t, s.TransferQueue.Valid, "absent is missing, not zero")
		})
	}
}

func TestBodiesThatFailAsAWhole(t *testing.T) {
	tests := []struct {
		name, contentType, body string
		reason                  observe.UncoveredReason
		message                 string
	}{
		{"a sign-in page", "text/html; charset=utf-8", "<html>sign in</html>", observe.Malformed, "text/html"},
		{"JSON", "application/json", "{}", observe.Malformed, "application/json"},
		{"an unreadable content type", "text/plain; =", queue, observe.Malformed, "content type"},
		{"an empty body", "", "", observe.NoEngineSeries, "no series"},
		{"another program's exposition", "", "go_goroutines 8\nprocess_start_time_seconds 1\n", observe.NoEngineSeries, "no series"},
		{"OpenMetrics without its end", openMetrics, queue, observe.Malformed, "cut short"},
		{"a needed line without a value", "", queue + "vllm:prompt_tokens_total\n", observe.Malformed, "line 3"},
		{"a needed line with a broken value", "", "vllm:num_requests_running three\n", observe.Malformed, "line 1"},
		{"a needed line with a bad byte", "", queue + "vllm:prompt_tokens_total{a=\"\xc0\"} 3\n", observe.Malformed, "line 3"},
		{"a needed line with an open quote", "", "vllm:num_requests_running{a=\"} 3\nvllm:num_requests_waiting{b=\"c\"} 5\n", observe.Malformed, "line 1"},
		{"a needed bucket with a broken boundary", "", queue + "vllm:time_to_first_token_seconds_bucket{le=\"x\"} 3\n", observe.Malformed, "line 3"},
		{"an exemplar on a needed line of text", "", queue + "vllm:time_to_first_token_seconds_bucket{le=\"0.5\"} 8 # {a=\"b\"} 0.3\n", observe.Malformed, "line 3"},
		{"one series twice", "", queue + "vllm:num_requests_running 4\n", observe.Malformed, "twice"},
		{"one series twice with its labels in another order", "", queue + "vllm:prompt_tokens_total{a=\"1\",b=\"2\"} 4\nvllm:prompt_tokens_total{b=\"2\",a=\"1\"} 5\n", observe.Malformed, "twice"},
		{"one bucket twice", "", queue + "vllm:time_to_first_token_seconds_bucket{le=\"1\"} 4\nvllm:time_to_first_token_seconds_bucket{le=\"1.0\"} 4\n", observe.Malformed, "twice"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := decodeIn(Sum, []byte(tt.body), tt.contentType)
			require.Error(t, err)
			require.Equal(t, tt.reason, ReasonOf(err))
			require.ErrorContains(t, err, tt.message)
			require.Equal(t, observe.Sample{}, s, "never half a scrape")
		})
	}
}

func TestAnExemplarOfOpenMetricsIsIgnored(t *testing.T) {
	body := queue + `vllm:time_to_first_token_seconds_bucket{le="0.5"} 8 # {trace_id="abc"} 0.3` + "\n" +
		"vllm:time_to_first_token_seconds_count 9\nvllm:time_to_first_token_seconds_sum 4.5\n# EOF\n"
	s, err := decodeIn(Sum, []byte(body), openMetrics)
	require.NoError(t, err)
	require.Len(t, s.TTFT, 1)
	require.Equal(t, []observe.Bucket{{LESeconds: 0.5, Count: 8}}, s.TTFT[0].Buckets)
	require.InDelta(t, 9, s.TTFT[0].Count, 0)
	require.Equal(t, observe.Known(4.5), s.TTFT[0].SumSeconds)
}

func TestCreatedSeriesAreNotTokens(t *testing.T) {
	s := decode(t, queue+"vllm:prompt_tokens_total 30\nvllm:prompt_tokens_created 1.7e+09\n")
	require.InDelta(t, 30, total(s, observe.PromptTokens), 0)
}

func TestUnusableGaugesAreMissingAndSaySo(t *testing.T) {
	for _, v := range []string{"NaN", "+Inf", "-Inf", "-3", "1e300"} {
		t.Run(v, func(t *testing.T) {
			s := decode(t, "vllm:num_requests_running "+v+"\nvllm:num_requests_waiting 2\n")
			require.False(t, s.Running.Valid)
			require.Equal(t, observe.Known(2), s.Waiting)
			require.Equal(t, "vllm:num_requests_running", s.InvalidGauge)
		})
	}
}

func TestUnusableCountersSaySo(t *testing.T) {
	for _, line := range []string{
		"vllm:generation_tokens_total NaN", "vllm:prompt_tokens_total -1",
		`vllm:time_to_first_token_seconds_bucket{le="1"} -Inf`, "vllm:inter_token_latency_seconds_count NaN",
	} {
		t.Run(line, func(t *testing.T) {
			require.NotEmpty(t, decode(t, queue+line+"\n").InvalidCounter)
		})
	}
}

func TestASumThatIsNoNumberIsOnlyASumLess(t *testing.T) {
	s := decode(t, queue+"vllm:inter_token_latency_seconds_sum NaN\nvllm:inter_token_latency_seconds_count 2\n"+
		`vllm:inter_token_latency_seconds_bucket{le="+Inf"} 2`+"\n")
	require.Empty(t, s.InvalidCounter)
	require.InDelta(t, 2, s.ITL[0].Count, 0)
	require.False(t, s.ITL[0].SumSeconds.Valid)
	require.Empty(t, s.ITL[0].Buckets, "the infinite bucket is the count")
}

func TestAHistogramWithoutAnyTotalIsNotRead(t *testing.T) {
	s := decode(t, queue+`vllm:inter_token_latency_seconds_bucket{le="1"} 2`+"\n")
	require.Empty(t, s.ITL)
}

func TestPrefixHitsOfOldVLLMAreTokens(t *testing.T) {
	const hits = "vllm:gpu_prefix_cache_hits_total 10\n"
	const blocks = "# HELP vllm:gpu_prefix_cache_hits_total GPU prefix cache hits, in terms of number of cached blocks.\n"
	const config = `vllm:cache_config_info{a="block_size=\"9\"",block_size="16",num_gpu_blocks="None"} 1.0` + "\n"
	tests := []struct {
		name, body string
		want       float64
		exposed    int
	}{
		{"blocks times their size", queue + blocks + hits + config, 160, 1},
		{"the order does not matter", config + hits + queue + blocks, 160, 1},
		{"tokens are taken as they are", queue + strings.ReplaceAll(blocks, "blocks", "tokens") + hits + config, 10, 1},
		{"no help text means tokens", queue + hits + config, 10, 1},
		{"blocks of unknown size are left out", queue + blocks + hits, 0, 0},
		{"blocks of senseless size are left out", queue + blocks + hits + `vllm:cache_config_info{block_size="None"} 1` + "\n", 0, 0},
		{"the new name counts tokens and wins", queue + blocks + hits + config + "vllm:prefix_cache_hits_total 7\n", 7, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := decode(t, tt.body)
			require.Len(t, s.Counters[observe.PrefixHits], tt.exposed)
			require.InDelta(t, tt.want, total(s, observe.PrefixHits), 0)
		})
	}
}

func TestMoreSeriesThanCanBeRememberedReadAsWell(t *testing.T) {
	d := NewDecoder(Sum)
	keys, learnt := make([]uint64, maxKnown), make([]series, maxKnown)
	for i := range keys {
		keys[i], learnt[i] = uint64(i), series{family: 1}
	}
	d.knownInText.learn(keys, learnt)
	for range 2 {
		result, err := d.Decode([]byte(queue), "", "")
		require.NoError(t, err)
		require.Equal(t, 2, result.Series)
		require.Equal(t, observe.Known(5), result.Sample.Waiting)
	}
	require.Len(t, d.knownInText.series, 2, "the others are forgotten")
	require.Empty(t, d.knownInOpenMetrics.series, "formats know their own")
}

func TestManyGoroutinesMayDecodeWhileSeriesAreLearnt(t *testing.T) {
	d := NewDecoder(Sum)
	var g errgroup.Group
	for i := range 8 {
		g.Go(func() error {
			for j := range 100 {
				result, err := d.Decode(fmt.Appendf(nil, "%svllm:prompt_tokens_total{model_name=\"%d-%d\"} 7\n", queue, i, j), "", "")
				if err != nil || total(result.Sample, observe.PromptTokens) != 7 {
					return fmt.Errorf("decoded %+v: %w", result, err)
				}
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
}
