package scrape

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

var update = flag.Bool("update", false, "write the golden files anew")

// summary is a Sample in the form of a golden file: shares of independent engines are added up.
type summary struct {
	Error         string            `json:"error,omitempty"`
	Engine        string            `json:"engine,omitempty"`
	ProcessStart  *float64          `json:"processStart,omitempty"`
	Running       *float64          `json:"running,omitempty"`
	Waiting       *float64          `json:"waiting,omitempty"`
	TransferQueue *float64          `json:"transferQueue,omitempty"`
	KVCacheUsage  *float64          `json:"kvCacheUsage,omitempty"`
	Counters      map[string]share  `json:"counters,omitempty"`
	TTFT          *histogramSummary `json:"ttft,omitempty"`
	ITL           *histogramSummary `json:"itl,omitempty"`
}

// share is what so many independent engines have counted.
type share struct {
	Engines int     `json:"engines"`
	Total   float64 `json:"total"`
}

type histogramSummary struct {
	Engines int                `json:"engines"`
	Count   float64            `json:"count"`
	Sum     float64            `json:"sum"`
	Buckets map[string]float64 `json:"buckets"`
}

var counterNames = [observe.CounterKinds]string{
	observe.PromptTokens: "prompt", observe.LocalCompute: "computed", observe.PrefixHits: "hits", observe.EffectiveInput: "effective",
	observe.EffectiveHits: "effectiveHits", observe.CachedTokens: "cached", observe.GenerationTokens: "generation", observe.RealtimeDecode: "decode",
}

func summarize(s observe.Sample, err error) summary {
	if err != nil {
		return summary{Error: string(ReasonOf(err))}
	}
	out := summary{
		Engine: string(s.Engine), Running: known(s.Running), Waiting: known(s.Waiting), TransferQueue: known(s.TransferQueue),
		KVCacheUsage: known(s.KVCacheUsage), ProcessStart: known(s.ProcessStart), Counters: map[string]share{},
		TTFT: summarizeHistograms(s.TTFT), ITL: summarizeHistograms(s.ITL),
	}
	for k, shares := range s.Counters {
		if len(shares) > 0 {
			out.Counters[counterNames[k]] = share{len(shares), total(s, observe.CounterKind(k))}
		}
	}
	return out
}

func known(v observe.Value) *float64 {
	if !v.Valid {
		return nil
	}
	return &v.Float64
}

func summarizeHistograms(shares []observe.Histogram) *histogramSummary {
	if len(shares) == 0 {
		return nil
	}
	out := &histogramSummary{Engines: len(shares), Buckets: map[string]float64{}}
	for _, h := range shares {
		out.Count += h.Count
		out.Sum += h.SumSeconds.Float64
		for _, b := range h.Buckets {
			out.Buckets[fmt.Sprint(b.LESeconds)] += b.Count
		}
	}
	return out
}

// Every exposition reads as its golden file says, and as the reference reads it.
func TestEveryExpositionReadsAsItsGoldenAndAsTheReference(t *testing.T) {
	names := map[string]string{} // path by name; what lies beside the project is there or not
	for _, path := range append(beside(t), ours(t)...) {
		name, _, _ := strings.Cut(filepath.Base(path), ".prom")
		names[name] = path
	}
	for name, path := range names {
		t.Run(name, func(t *testing.T) {
			body, contentType := read(t, path)
			got := summarize(decodeIn(Sum, body, contentType))
			golden := filepath.Join("testdata", "golden", name+".json")
			if *update {
				text, err := json.MarshalIndent(got, "", "  ")
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(golden, append(text, '\n'), 0o600))
			}
			text, err := os.ReadFile(golden)
			require.NoError(t, err)
			var want summary
			require.NoError(t, json.Unmarshal(text, &want))
			requireSame(t, want, got)
			requireSame(t, parseReference(t, body).summary(), got)
		})
	}
}

// requireSame compares but for the order in which floats were added.
func requireSame(t *testing.T, want, got summary) {
	t.Helper()
	require.Equal(t, rounded(t, want), rounded(t, got))
}

func rounded(t *testing.T, s summary) string {
	t.Helper()
	text, err := json.Marshal(s)
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(text, &fields))
	return render(fields)
}

func render(v any) string {
	switch v := v.(type) {
	case float64:
		return fmt.Sprintf("%.9g", v)
	case map[string]any:
		for k, e := range v {
			v[k] = render(e)
		}
		return fmt.Sprint(v)
	default:
		return fmt.Sprint(v)
	}
}
