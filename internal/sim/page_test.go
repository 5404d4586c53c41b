package sim

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// scrape parses a page: values by series, and the types of the families.
func scrape(t require.TestingT, page []byte) (map[string]float64, map[string]model.MetricType) {
	values, types := make(map[string]float64), make(map[string]model.MetricType)
	parser := textparse.NewPromParser(page, labels.NewSymbolTable(), false)
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return values, types
		}
		require.NoError(t, err)
		switch entry {
		case textparse.EntryType:
			name, kind := parser.Type()
			require.NotContains(t, types, string(name), "a family that begins twice")
			types[string(name)] = kind
		case textparse.EntrySeries:
			series, _, value := parser.Series()
			_, twice := values[string(series)]
			require.False(t, twice, string(series))
			values[string(series)] = value
		}
	}
}

var at = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func pageOf(e *Engine) []byte {
	return e.AppendPage(nil, Page{Model: "Qwen/Qwen3-32B", Started: at, Now: at.Add(time.Duration(e.now * 1e9))})
}

// busy is an engine under load.
func busy(engine observe.Engine, kind observe.RoleKind) *Engine {
	e := NewEngine(engine, kind, DefaultCapacity(), 0)
	for now := 0.; now < 120; now += .1 {
		for _, r := range Constant(30, 700, 200).Arrivals(nil, now, now+.1) {
			e.Advance(r.Born)
			e.Submit(r)
		}
		e.Advance(now + .1)
	}
	return e
}

func TestPagesAreAsLargeAsReal(t *testing.T) {
	for _, row := range []struct {
		name     string
		engine   observe.Engine
		kind     observe.RoleKind
		from, to int // KiB
	}{
		{"vLLM server", observe.VLLM, observe.Server, 50, 70},
		{"vLLM prefill", observe.VLLM, observe.Prefill, 50, 70},
		{"vLLM decode", observe.VLLM, observe.Decode, 50, 70},
		{"SGLang server", observe.SGLang, observe.Server, 60, 100},
		{"SGLang prefill", observe.SGLang, observe.Prefill, 70, 110},
		{"SGLang decode", observe.SGLang, observe.Decode, 70, 110},
	} {
		t.Run(row.name, func(t *testing.T) {
			page := pageOf(busy(row.engine, row.kind))
			require.Greater(t, len(page), row.from<<10)
			require.Less(t, len(page), row.to<<10)
			values, _ := scrape(t, page)
			require.Greater(t, len(values), 400)
			t.Logf("%d bytes, %d series", len(page), len(values))
		})
	}
}

// vllm and sglang are keys of series with the labels of the one engine on the page.
func vllm(name string) string {
	return `vllm:` + name + `{engine="0",model_name="Qwen/Qwen3-32B"}`
}

func sglang(kind, name string) string {
	return `sglang:` + name + `{engine_type="` + kind + `",model_name="Qwen/Qwen3-32B",moe_ep_rank="0",pp_rank="0",tp_rank="0"}`
}

func TestVLLMPageSaysWhatTheModelDoes(t *testing.T) {
	e := busy(observe.VLLM, observe.Server)
	values, types := scrape(t, pageOf(e))
	c := e.Counts()
	require.Equal(t, model.MetricTypeGauge, types["vllm:num_requests_running"])
	require.Equal(t, model.MetricTypeCounter, types["vllm:prompt_tokens_total"])
	require.Equal(t, model.MetricTypeHistogram, types["vllm:time_to_first_token_seconds"])
	for name, want := range map[string]float64{
		"num_requests_running": float64(e.Running()), "num_requests_waiting": float64(e.Waiting()), "kv_cache_usage_perc": e.KVUsage(),
		"prompt_tokens_total": float64(c.Prompt), "generation_tokens_total": c.Generated, "prefix_cache_hits_total": float64(c.Hit),
		"time_to_first_token_seconds_count": float64(e.hist.firstToken.Total()), "inter_token_latency_seconds_sum": e.hist.perToken.Sum,
	} {
		require.Contains(t, values, vllm(name))
		require.InDelta(t, want, values[vllm(name)], 1, name)
	}
	require.Equal(t, 64, e.Running())
	require.Positive(t, e.Waiting())
	require.InDelta(t, float64(c.Computed), values[strings.Replace(vllm("prompt_tokens_by_source_total"), "}", `,source="local_compute"}`, 1)], 0)
}

func TestSGLangPagesSayWhatTheModelDoes(t *testing.T) {
	for kind, role := range map[string]observe.RoleKind{"unified": observe.Server, "prefill": observe.Prefill, "decode": observe.Decode} {
		t.Run(kind, func(t *testing.T) {
			e := busy(observe.SGLang, role)
			values, types := scrape(t, pageOf(e))
			require.InDelta(t, float64(e.Running()), values[sglang(kind, "num_running_reqs")], 0)
			require.InDelta(t, e.KVUsage(), values[sglang(kind, "token_usage")], 1e-12)
			require.InDelta(t, float64(e.Transferring()), values[sglang(kind, "num_decode_transfer_queue_reqs")], 0)
			queued := values[sglang(kind, "num_queue_reqs")] + values[sglang(kind, "num_decode_prealloc_queue_reqs")]
			require.InDelta(t, float64(e.Waiting()), queued, 0)
			tokens := `sglang:generation_tokens_total{engine_type="` + kind + `",is_streaming="true",model_name="Qwen/Qwen3-32B"}`
			require.InDelta(t, float64(e.Counts().FinishedGenerated), values[tokens], 0)
			if kind == "prefill" {
				require.NotContains(t, types, "sglang:time_to_first_token_seconds")
			} else {
				require.Contains(t, types, "sglang:time_to_first_token_seconds")
			}
		})
	}
}

func TestIdleEngines(t *testing.T) {
	t.Run("vLLM prints everything at zero", func(t *testing.T) {
		values, _ := scrape(t, pageOf(NewEngine(observe.VLLM, observe.Server, small, 0)))
		require.Contains(t, values, vllm("generation_tokens_total"))
	})
	t.Run("SGLang has no token counters before its first finished request", func(t *testing.T) {
		values, types := scrape(t, pageOf(NewEngine(observe.SGLang, observe.Server, small, 0)))
		require.Contains(t, values, sglang("unified", "num_running_reqs"))
		require.NotContains(t, types, "sglang:generation_tokens_total")
		require.NotContains(t, types, "sglang:inter_token_latency_seconds")
	})
}

func TestCountersOnPagesNeverFall(t *testing.T) {
	for _, engine := range []observe.Engine{observe.VLLM, observe.SGLang} {
		for _, kind := range []observe.RoleKind{observe.Server, observe.Prefill, observe.Decode, observe.Encode} {
			t.Run(string(engine)+" "+string(kind), func(t *testing.T) {
				e, traffic, last := NewEngine(engine, kind, DefaultCapacity(), 0), Burst(1, 60, 10, 30, 700, 200), make(map[string]float64)
				for now := 0.; now < 60; now += 2.3 {
					for _, r := range traffic.Arrivals(nil, now, now+2.3) {
						e.Advance(r.Born)
						e.Submit(r)
					}
					e.Advance(now + 2.3)
					compare(t, last, pageOf(e))
				}
				require.NotEmpty(t, last)
			})
		}
	}
}

// compare the counters of a page with the last ones.
func compare(t *testing.T, last map[string]float64, page []byte) {
	values, types := scrape(t, page)
	for series, value := range values {
		if isCounter(series, types) {
			require.GreaterOrEqual(t, value, last[series], series)
			last[series] = value
		}
	}
}

func isCounter(series string, types map[string]model.MetricType) bool {
	name, _, _ := strings.Cut(series, "{")
	if types[name] == model.MetricTypeCounter {
		return true
	}
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && types[base] == model.MetricTypeHistogram {
			return true
		}
	}
	return false
}

func TestNumbersLookLikePython(t *testing.T) {
	for value, want := range map[float64]string{0: "0.0", 3: "3.0", .25: "0.25", 5e-05: "5e-05", 999999: "999999.0", 64929219: "6.4929219e+07", -1: "-1.0"} {
		require.Equal(t, want, string(appendNumber(nil, value)))
	}
}

func TestModelNamesAreQuoted(t *testing.T) {
	e := NewEngine(observe.VLLM, observe.Server, small, 0)
	values, _ := scrape(t, e.AppendPage(nil, Page{Model: "a\"b\\c\nd", Started: at, Now: at}))
	require.Contains(t, values, `vllm:num_requests_running{engine="0",model_name="a\"b\\c\nd"}`)
}

func BenchmarkPage(b *testing.B) {
	for _, engine := range []observe.Engine{observe.VLLM, observe.SGLang} {
		b.Run(string(engine), func(b *testing.B) {
			e, buffer := busy(engine, observe.Server), make([]byte, 0, 128<<10)
			b.ReportAllocs()
			for b.Loop() {
				buffer = e.AppendPage(buffer[:0], Page{Model: "Qwen/Qwen3-32B", Started: at, Now: at})
			}
		})
	}
}
