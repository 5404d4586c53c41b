package scrape

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// read is a file with the content type that its engine sends with it.
func read(t testing.TB, path string) (body []byte, contentType string) {
	t.Helper()
	body, err := os.ReadFile(path)
	require.NoError(t, err)
	if strings.HasSuffix(strings.TrimSpace(string(body)), "# EOF") {
		return body, openMetrics
	}
	return body, "text/plain; version=0.0.4"
}

// exposition is a file of testdata; the large ones are compressed.
func exposition(t testing.TB, name string) (body []byte, contentType string) {
	t.Helper()
	path := filepath.Join("testdata", name+".prom")
	if packed, err := os.Open(path + ".gz"); err == nil {
		defer packed.Close()
		unpacked, err := gzip.NewReader(packed)
		require.NoError(t, err)
		body, err = io.ReadAll(unpacked)
		require.NoError(t, err)
		return body, "text/plain; version=0.0.4"
	}
	return read(t, path)
}

// The numbers were read from the files with grep.
func TestTypicalExpositions(t *testing.T) {
	t.Run("SGLang 0.5.15, tensor parallel 8, one reporting rank", func(t *testing.T) {
		body, contentType := read(t, "testdata/sglang-0.5.15-tp8.prom")
		s, err := decodeIn(Sum, body, contentType)
		require.NoError(t, err)
		require.Equal(t, observe.SGLang, s.Engine)
		require.Equal(t, []observe.Value{observe.Known(55), observe.Known(29), observe.Known(0), observe.Known(0.37)}, []observe.Value{s.Running, s.Waiting, s.TransferQueue, s.KVCacheUsage})
		require.Equal(t, map[observe.CounterKind]float64{
			observe.PromptTokens: 324800 + 32480, observe.EffectiveInput: 174000, observe.EffectiveHits: 120000,
			observe.GenerationTokens: 82800 + 8280, observe.RealtimeDecode: 82800,
		}, totals(s))
		require.Len(t, s.TTFT, 2, "streaming and other requests")
		require.Len(t, s.ITL, 1)
		require.Len(t, s.ITL[0].Buckets, 23)
		require.InDelta(t, 8000, s.ITL[0].Count, 0)
	})
	t.Run("vLLM 0.30 in OpenMetrics", func(t *testing.T) {
		body, contentType := read(t, "testdata/vllm-v1-0.30-openmetrics.prom")
		s, err := decodeIn(Sum, body, contentType)
		require.NoError(t, err)
		require.Equal(t, observe.VLLM, s.Engine)
		require.Equal(t, []observe.Value{observe.Known(5), observe.Known(6), {}}, []observe.Value{s.Running, s.Waiting, s.TransferQueue})
		require.True(t, s.ProcessStart.Valid)
		require.Equal(t, map[observe.CounterKind]float64{
			observe.PromptTokens: 324800, observe.LocalCompute: 174000, observe.PrefixHits: 150800, observe.GenerationTokens: 82800,
		}, totals(s))
		require.Len(t, s.TTFT[0].Buckets, 22)
	})
	t.Run("vLLM 0.10.2, old and new names side by side", func(t *testing.T) {
		body, contentType := read(t, "testdata/vllm-v1-0.10.2.prom")
		s, err := decodeIn(Sum, body, contentType)
		require.NoError(t, err)
		require.Equal(t, []observe.Value{observe.Known(22), observe.Known(20)}, []observe.Value{s.Running, s.Waiting})
		require.Equal(t, map[observe.CounterKind]float64{
			observe.PromptTokens: 324800, observe.PrefixHits: 150800, observe.GenerationTokens: 82800,
		}, totals(s))
		require.Len(t, s.ITL, 1)
	})
}

func totals(s observe.Sample) map[observe.CounterKind]float64 {
	m := map[observe.CounterKind]float64{}
	for k := range observe.CounterKinds {
		if len(s.Counters[k]) > 0 {
			m[k] = total(s, k)
		}
	}
	return m
}

// Expositions that are not part of the project are read where they lie beside it.
func TestExpositionsBesideTheProject(t *testing.T) {
	running := map[string]observe.Value{
		"sglang-0.5.15-decode-dpattn16": observe.Known(591), "sglang-0.5.15-dpattn8": observe.Known(223), "sglang-0.5.15-node1-ranks8to15": observe.Known(283),
		"sglang-0.5.15-pp2": observe.Known(55), "sglang-0.5.15-tp8-allschedulers": observe.Known(55), "vllm-v1-0.30-dp2": observe.Known(107),
		"vllm-v1-0.30-dp8": observe.Known(232), "vllm-v1-0.30-external-dp-rank3": observe.Known(15), "sglang-0.5.3-idle": observe.Known(0),
		"sglang-0.4-docs-production-metrics": observe.Known(162), "sglang-0.3.5-docs-label-name": observe.Known(0),
		"vllm-v1-design-doc-excerpt-no-inf-no-sum": observe.Known(8), "vllm-v0-plus-v1-datadog-fixture": observe.Known(0),
	}
	files := beside(t)
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".prom")
		t.Run(name, func(t *testing.T) {
			body, contentType := read(t, path)
			s, err := decodeIn(Sum, body, contentType)
			if !strings.Contains(string(body), "\nvllm:") && !strings.Contains(string(body), "\nsglang:") {
				require.Equal(t, observe.NoEngineSeries, ReasonOf(err))
				return
			}
			if err != nil {
				// Cut excerpts without any needed series.
				require.Equal(t, observe.NoEngineSeries, ReasonOf(err))
				require.NotContains(t, running, name)
				return
			}
			require.True(t, strings.HasPrefix(name, strings.ToLower(string(s.Engine))))
			require.Empty(t, s.InvalidGauge+s.InvalidCounter)
			if want, known := running[name]; known {
				require.Equal(t, want, s.Running)
			}
		})
	}
}

func beside(t testing.TB) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*.prom", "synthetic/*.prom"} {
		found, err := filepath.Glob(filepath.Join("..", "..", "..", "shared", "expositions", pattern))
		require.NoError(t, err)
		files = append(files, found...)
	}
	if len(files) == 0 {
		t.Log("the public expositions are absent: only those in testdata were read")
	}
	return files
}
