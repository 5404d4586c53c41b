package scrape

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

// The reference reads an exposition by another way than the code under test: the parser of prometheus/common reads the whole
// of it into families, and the rules of D6, D9 and D40 are followed literally on maps of labels.
type reference struct {
	samples []referenceSample
	blocks  bool // prefix hits are counted in blocks
}

type referenceSample struct {
	name   string
	labels map[string]string
	value  float64
}

// Names of each signal, the one that is read first standing first.
var referenceNames = map[string]map[string][]string{
	"vLLM": {
		"running": {"vllm:num_requests_running"}, "waiting": {"vllm:num_requests_waiting"},
		"kv":     {"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"},
		"prompt": {"vllm:prompt_tokens_total"}, "computed": {`vllm:prompt_tokens_by_source_total{source="local_compute"}`},
		"hits": {"vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"}, "generation": {"vllm:generation_tokens_total"},
		"ttft": {"vllm:time_to_first_token_seconds"},
		"itl":  {"vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"},
	},
	"SGLang": {
		"running": {"sglang:num_running_reqs", "sglang:num_requests_running"},
		"waiting": {"sglang:num_queue_reqs", "sglang:num_requests_waiting", "sglang:queue_req"},
		"queue":   {"sglang:num_decode_transfer_queue_reqs"}, "kv": {"sglang:token_usage"},
		"prompt": {"sglang:prompt_tokens_total"}, "effective": {`sglang:prefill_effective_tokens_total{mode="input"}`},
		"effectiveHits": {`sglang:prefill_effective_tokens_total{mode="device_hit|host_hit|storage_hit"}`},
		"cached":        {`sglang:cached_tokens_total{cache_source="|total"}`}, "generation": {"sglang:generation_tokens_total"},
		"decode": {`sglang:realtime_tokens_total{mode="decode"}`},
		"ttft":   {"sglang:time_to_first_token_seconds"},
		"itl":    {"sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"},
	},
}

func parseReference(t *testing.T, body []byte) *reference {
	t.Helper()
	if n := len(body); n > 0 && body[n-1] != '\n' {
		body = append(slices.Clone(body), '\n') // that parser insists
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(bytes.NewReader(body))
	require.NoError(t, err)
	r := &reference{}
	for name, f := range families {
		for _, m := range f.Metric {
			r.flatten(name, m)
		}
		r.blocks = r.blocks || (strings.HasPrefix(name, "vllm:gpu_prefix_cache_hits") && strings.Contains(f.GetHelp(), "block"))
	}
	return r
}

func (r *reference) flatten(name string, m *dto.Metric) {
	add := func(suffix string, value float64, le ...string) {
		labels := map[string]string{}
		for _, l := range m.Label {
			labels[l.GetName()] = l.GetValue()
		}
		if len(le) > 0 {
			labels["le"] = le[0]
		}
		r.samples = append(r.samples, referenceSample{name + suffix, labels, value})
	}
	switch {
	case m.Gauge != nil:
		add("", m.Gauge.GetValue())
	case m.Counter != nil:
		add("", m.Counter.GetValue())
	case m.Untyped != nil:
		add("", m.Untyped.GetValue())
	case m.Histogram != nil:
		for _, b := range m.Histogram.Bucket {
			add("_bucket", float64(b.GetCumulativeCount()), fmt.Sprint(b.GetUpperBound()))
		}
		if m.Histogram.SampleSum != nil {
			add("_sum", m.Histogram.GetSampleSum())
		}
		if m.Histogram.SampleCount != nil {
			add("_count", float64(m.Histogram.GetSampleCount()))
		}
	}
}

// of lists the samples of a name as in referenceNames.
func (r *reference) of(selector string) []referenceSample {
	name, condition, conditional := strings.Cut(selector, "{")
	label, values, _ := strings.Cut(strings.TrimSuffix(condition, `"}`), `="`)
	var found []referenceSample
	for _, s := range r.samples {
		if s.name == name && (!conditional || slices.Contains(strings.Split(values, "|"), s.labels[label])) {
			found = append(found, s)
		}
	}
	return found
}

// chosen is one value per independent engine, by the labels that tell them apart.
func chosen(samples []referenceSample) map[string]float64 {
	totals := slices.ContainsFunc(samples, func(s referenceSample) bool { return s.labels["priority"] == "" })
	best, values := map[string][]int{}, map[string]float64{}
	for _, s := range samples {
		if totals && s.labels["priority"] != "" {
			continue
		}
		key, rank := independent(s.labels), ranks(s.labels)
		old, known := best[key]
		switch c := slices.Compare(rank, old); {
		case !known || c < 0:
			best[key], values[key] = rank, s.value
		case c == 0:
			values[key] = max(values[key], s.value)
		}
	}
	return values
}

func independent(labels map[string]string) string {
	var key []string
	for name, value := range labels {
		if !slices.Contains([]string{"pp_rank", "tp_rank", "moe_ep_rank", "ep_rank", "rank", "pid"}, name) && value != "" {
			key = append(key, name+"="+value)
		}
	}
	slices.Sort(key)
	return strings.Join(key, ",")
}

func ranks(labels map[string]string) (out []int) {
	for _, name := range []string{"pp_rank", "tp_rank", "moe_ep_rank", "ep_rank", "rank"} {
		n, _ := strconv.Atoi(labels[name])
		out = append(out, n)
	}
	return out
}

// summary says what the reference read.
func (r *reference) summary() summary {
	for _, engine := range []string{"vLLM", "SGLang"} {
		if s, found := r.summaryOf(engine); found {
			return s
		}
	}
	return summary{Error: "NoEngineSeries"}
}

func (r *reference) summaryOf(engine string) (s summary, found bool) {
	s = summary{Engine: engine, Counters: map[string]share{}}
	gauges := map[string]**float64{"running": &s.Running, "waiting": &s.Waiting, "queue": &s.TransferQueue, "kv": &s.KVCacheUsage}
	for signal, names := range referenceNames[engine] {
		if signal == "ttft" || signal == "itl" {
			continue
		}
		for _, name := range names {
			values := chosen(r.of(name))
			if len(values) == 0 {
				continue
			}
			found = true
			sum := 0.0
			for _, v := range values {
				sum += v
			}
			if strings.HasPrefix(name, "vllm:gpu_prefix_cache_hits") && r.blocks {
				sum *= r.blockSize()
			}
			if gauge, is := gauges[signal]; is {
				if signal == "kv" {
					sum /= float64(len(values))
				}
				*gauge = &sum
			} else {
				s.Counters[signal] = share{len(values), sum}
			}
			break
		}
	}
	s.TTFT, s.ITL = r.histograms(referenceNames[engine]["ttft"]), r.histograms(referenceNames[engine]["itl"])
	if starts := r.of("process_start_time_seconds"); len(starts) > 0 {
		s.ProcessStart = &starts[0].value
	}
	return s, found || s.TTFT != nil || s.ITL != nil
}

func (r *reference) blockSize() float64 {
	n, _ := strconv.Atoi(r.of("vllm:cache_config_info")[0].labels["block_size"])
	return float64(n)
}

// histograms adds the histograms of all independent engines up, by boundary.
func (r *reference) histograms(names []string) *histogramSummary {
	for _, name := range names {
		counts, sums, buckets := chosen(r.of(name+"_count")), chosen(r.of(name+"_sum")), chosen(r.of(name+"_bucket"))
		if len(counts)+len(buckets) == 0 {
			continue
		}
		h := &histogramSummary{Buckets: map[string]float64{}}
		infinite := map[string]float64{}
		for key, v := range buckets {
			labels := strings.Split(key, ",")
			i := slices.IndexFunc(labels, func(l string) bool { return strings.HasPrefix(l, "le=") })
			le, err := strconv.ParseFloat(strings.TrimPrefix(labels[i], "le="), 64)
			engine := strings.Join(slices.Delete(labels, i, i+1), ",")
			if err == nil && math.IsInf(le, 1) {
				infinite[engine] = v
				continue
			}
			h.Buckets[fmt.Sprint(le)] += v
		}
		for key, v := range counts {
			infinite[key] = v
		}
		if len(infinite) == 0 {
			return nil // no total, so it is not read
		}
		h.Engines = len(infinite)
		for _, v := range infinite {
			h.Count += v
		}
		for _, v := range sums {
			h.Sum += v
		}
		return h
	}
	return nil
}
