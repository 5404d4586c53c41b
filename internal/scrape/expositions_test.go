package scrape

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// read is a file with the content type that its engine sends with it. The large ones are compressed.
func read(t testing.TB, path string) (body []byte, contentType string) {
	t.Helper()
	body, err := os.ReadFile(path)
	require.NoError(t, err)
	if strings.HasSuffix(path, ".gz") {
		unpacked, err := gzip.NewReader(bytes.NewReader(body))
		require.NoError(t, err)
		body, err = io.ReadAll(unpacked)
		require.NoError(t, err)
	}
	if strings.HasSuffix(strings.TrimSpace(string(body)), "# EOF") {
		return body, openMetrics
	}
	return body, "text/plain; version=0.0.4"
}

// exposition is a file of testdata by its name.
func exposition(t testing.TB, name string) (body []byte, contentType string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("testdata", name+".prom*"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	return read(t, found[0])
}

// ours are all files of testdata.
func ours(t testing.TB) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("testdata", "*.prom*"))
	require.NoError(t, err)
	require.NotEmpty(t, found)
	return found
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

// beside are public expositions, which are not part of the project and are read where they lie next to it.
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
