package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// run runs the plugin.
func run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Main(args, &o, &e)
	return code, o.String(), e.String()
}

func inspect(t *testing.T, args ...string) []map[string]any {
	t.Helper()
	code, out, errs := run(t, append([]string{"inspect", "-o", "json"}, args...)...)
	require.Zero(t, code, errs)
	var entries []map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &entries), out)
	return entries
}

// file writes a scrape.
func file(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "metrics.prom")
	require.NoError(t, os.WriteFile(path, []byte(body), 0o600))
	return path
}

// engineFile is a scrape of a real engine, and a later one with changes: old text, new text, ...
func engineFile(t *testing.T, name string, changes ...string) (before, after string) {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("..", "scrape", "testdata", name))
	require.NoError(t, err)
	for i := 0; i < len(changes); i += 2 {
		require.Positive(t, strings.Count(string(body), changes[i]), changes[i])
	}
	return file(t, string(body)), file(t, strings.NewReplacer(changes...).Replace(string(body)))
}

func TestTwoScrapesOfVLLM(t *testing.T) {
	const labels = `{engine="0",model_name="Qwen/Qwen2.5-7B-Instruct"`
	before, after := engineFile(t, "vllm-v1-0.30.prom",
		"vllm:generation_tokens_total"+labels+"} 82800.0", "vllm:generation_tokens_total"+labels+"} 85800.0",
		"vllm:prompt_tokens_total"+labels+"} 324800.0", "vllm:prompt_tokens_total"+labels+"} 327800.0",
		"vllm:prompt_tokens_by_source_total"+labels+`,source="local_compute"} 174000.0`, "vllm:prompt_tokens_by_source_total"+labels+`,source="local_compute"} 174300.0`,
	)
	entries := inspect(t, before, after)
	require.Len(t, entries, 2)
	first, second := entries[0], entries[1]
	require.Equal(t, "vLLM", first["engine"])
	require.InDelta(t, 26, first["running"], 0)
	require.Nil(t, first["generationTokensPerSecond"])
	require.Nil(t, first["error"])
	require.NotContains(t, first, "answered", "one Pod is no role")
	require.Equal(t, "Fresh", second["state"])
	require.InDelta(t, 200, second["generationTokensPerSecond"], 0)
	require.InDelta(t, 20, second["promptTokensPerSecond"], 0)
	require.InDelta(t, 200, second["rawPromptTokensPerSecond"], 0)
	require.InDelta(t, 55, second["seriesRead"], 0)
	require.InDelta(t, 59848, second["bytes"], 0)

	_, table, _ := run(t, "inspect", "--interval", "30s", before, after)
	require.Contains(t, table, "rates need a second scrape")
	require.Regexp(t, `2 +Fresh +vLLM +26 +10 +\S+% +10 +100 +100 +- +-`, table)
	require.Contains(t, table, "no TTFT: no request got its first token between the scrapes")
}

func TestADecodePodOfAPair(t *testing.T) {
	const counter = `sglang:realtime_tokens_total{engine_type="decode",mode="decode",model_name="deepseek-ai/DeepSeek-V3.2",moe_ep_rank="0",pp_rank="0",tp_rank="0"} `
	before, after := engineFile(t, "sglang-0.5.15-decode.prom", counter+"82800.0", counter+"97800.0")
	second := inspect(t, "--role-kind", "decode", before, after)[1]
	require.Equal(t, "SGLang", second["engine"])
	asServer := inspect(t, before)[0]
	require.Greater(t, second["waiting"], asServer["waiting"], "a decode role waits for transfers too")
	require.Nil(t, second["promptTokensPerSecond"])
	require.InDelta(t, 1000, second["generationTokensPerSecond"], 0)
	_, table, _ := run(t, "inspect", "--role-kind", "decode", before, after)
	require.Contains(t, table, "no prompt rates: a decode engine also counts")
}

func TestLatenciesOfBothKinds(t *testing.T) {
	page := func(under, over, sum int) string {
		return file(t, fmt.Sprintf("vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"+
			"vllm:time_to_first_token_seconds_bucket{le=\"0.5\"} %[1]d\nvllm:time_to_first_token_seconds_count %[1]d\n"+
			"vllm:inter_token_latency_seconds_bucket{le=\"0.1\"} %[1]d\nvllm:inter_token_latency_seconds_count %[2]d\nvllm:inter_token_latency_seconds_sum %[3]d\n", under, over, sum))
	}
	_, table, _ := run(t, "inspect", page(0, 0, 0), page(10, 20, 5))
	require.Contains(t, table, "500ms (p95)  250ms (mean)")
	entry := inspect(t, page(0, 0, 0), page(10, 20, 5))[1]
	require.Equal(t, "bucket", entry["ttftSource"])
	require.Equal(t, "mean", entry["itlSource"])
	require.InDelta(t, 250, entry["itlMilliseconds"], 0)
}

func TestWhyAnEngineIsMissing(t *testing.T) {
	vllm, err := os.ReadFile(filepath.Join("..", "scrape", "testdata", "vllm-v1-0.10.2.prom"))
	require.NoError(t, err)
	cut := strings.Index(string(vllm), "vllm:num_requests_waiting{") + len("vllm:num_requests_waiting{")
	tests := []struct {
		name string
		args []string
		why  string
	}{
		{"cut inside a needed line", []string{file(t, string(vllm[:cut]))}, "is malformed (vllm:num_requests_waiting)"},
		{"cut in OpenMetrics", []string{file(t, "vllm:num_requests_running 1\n"), "--content-type", "application/openmetrics-text"}, "no # EOF"},
		{"a sign-in page", []string{file(t, "<html>"), "--content-type", "text/html"}, "text/html"},
		{"metrics of something else", []string{file(t, "go_goroutines 5\n")}, "check the port, and that the engine has metrics enabled"},
		{"a failed scrape", []string{"-"}, "the scrape failed"},
		{"a value that is none", []string{file(t, "vllm:num_requests_running NaN\nvllm:num_requests_waiting 1\n")}, "vllm:num_requests_running is no usable number"},
		{"too much", []string{file(t, strings.Repeat("# a long comment\n", maxBytes/10))}, "--max-scrape-bytes"},
		{"nobody listens", []string{"http://127.0.0.1:1/metrics"}, "connecting"},
		{"no such port", []string{"http://127.0.0.1:99999/metrics"}, "port of the URL"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			entry := inspect(t, tt.args...)[0]
			require.Equal(t, "Missing", entry["state"])
			require.Nil(t, entry["running"])
			require.Contains(t, entry["error"], tt.why)
			_, table, _ := run(t, append([]string{"inspect"}, tt.args...)...)
			require.Contains(t, table, tt.why)
		})
	}
}

func TestAFileThatWasCutBetweenSeriesIsSuspected(t *testing.T) {
	_, table, _ := run(t, "inspect", file(t, "vllm:num_requests_running 1\nvllm:num_requests_waiting 5\nvllm:unk"))
	require.Contains(t, table, "may have been cut off")
	require.Contains(t, table, "no KV cache usage")
}

func TestAnotherEngineThanAskedForIsSaid(t *testing.T) {
	_, table, _ := run(t, "inspect", "--engine", "SGLang", file(t, "vllm:num_requests_running 1\nvllm:num_requests_waiting 5\n"))
	require.Contains(t, table, "these are the metrics of vLLM, not of SGLang")
}

func TestSeveralPodsAreARole(t *testing.T) {
	page := func(running, generated int) string {
		return file(t, fmt.Sprintf("sglang:num_running_reqs %d\nsglang:num_queue_reqs 1\nsglang:generation_tokens_total %d\n", running, generated))
	}
	entries := inspect(t, "--pod", "a="+page(2, 0)+","+page(3, 150), "--pod", "b="+page(4, 0)+",-")
	require.InDelta(t, 6, entries[0]["running"], 0)
	require.InDelta(t, 2, entries[0]["answered"], 0)
	require.InDelta(t, 0, entries[0]["rated"], 0)
	require.InDelta(t, 3, entries[1]["running"], 0)
	require.InDelta(t, 10, entries[1]["generationTokensPerSecond"], 0)
	require.InDelta(t, 1, entries[1]["rated"], 0)
	require.Equal(t, "b: the scrape failed, as - says", entries[1]["error"])
	_, table, _ := run(t, "inspect", "--pod", "a="+page(2, 0), "--pod", "b="+page(4, 0))
	require.Regexp(t, `ANSWERED +RATED\n1 .* 2 +0\n`, table)
}

func TestAURLIsScrapedEachTimeItIsNamed(t *testing.T) {
	var tokens atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "vllm:num_requests_running{path=%q} 1\nvllm:num_requests_waiting 0\nvllm:generation_tokens_total %d\n", r.URL.String(), tokens.Add(100))
	}))
	t.Cleanup(server.Close)
	url := strings.Replace(server.URL, "127.0.0.1", "localhost", 1) + "/metrics?x=1"
	entries := inspect(t, "--interval", "2s", url, url)
	rate, is := entries[1]["generationTokensPerSecond"].(float64)
	require.True(t, is, entries)
	require.Positive(t, rate)
	require.Less(t, rate, 100.0, "the interval was waited for")
}

func TestMistakesAreToldAllAtOnce(t *testing.T) {
	code, _, errs := run(t, "inspect", "--interval", "0s", "--engine", "x", "--role-kind", "y", "-o", "z", "--data-parallel", "w")
	require.Equal(t, 2, code)
	for _, want := range []string{"--interval", "--engine", "--role-kind", "--output", "--data-parallel", "give either"} {
		require.Contains(t, errs, want)
	}
	code, _, errs = run(t, "inspect", "--pod", "a=x,y", "--pod", "b=x", "--pod", "c")
	require.Equal(t, 2, code)
	require.Contains(t, errs, "b has not as many scrapes as a")
	require.Contains(t, errs, `"c" is not NAME=FILE,FILE`)
	code, _, errs = run(t, "inspect", filepath.Join(t.TempDir(), "missing"))
	require.Equal(t, 1, code)
	require.Contains(t, errs, "no such file")
	for _, args := range [][]string{{"bogus"}, {"inspect", "--bogus"}} {
		code, _, _ = run(t, args...)
		require.Equal(t, 2, code)
	}
}

func TestHelpNamesEveryCommandInItsGroup(t *testing.T) {
	code, out, _ := run(t, []string{}...) // without any, a command takes those of the process
	require.Zero(t, code)
	require.Regexp(t, `Engine signals:\n +inspect `, out)
	code, out, _ = run(t, "--version")
	require.Zero(t, code)
	require.Contains(t, out, "kubectl-mds ")
}
