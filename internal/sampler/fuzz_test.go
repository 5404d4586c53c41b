package sampler

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/scrape"
	"gpustack.ai/model-deployment-scaler/internal/windows"
)

// FuzzObservation shows that no pair of bodies makes an observation with a negative or a number that is none.
func FuzzObservation(f *testing.F) {
	f.Add([]byte(vllmPage(100)), []byte(vllmPage(250)), 0)
	f.Add([]byte(vllmPage(250)), []byte(vllmPage(100)), 1)
	f.Add([]byte(sglangPage(0)), []byte(sglangPage(1e9)), 2)
	f.Add([]byte("sglang:num_running_reqs 0\nsglang:num_queue_reqs 0\n"), []byte(sglangPage(7)), 1)
	f.Add([]byte("vllm:num_requests_running 1e18\nvllm:num_requests_waiting 1e18\n"), []byte("vllm:num_requests_running NaN\n"), 0)
	decoder := scrape.NewDecoder(scrape.Sum)
	f.Fuzz(func(t *testing.T, before, after []byte, kind int) {
		requireSanePasses(t, kind, before, after, func(body []byte) (scrape.Result, error) { return decoder.Decode(body, "", "") })
	})
}

// maxFuzzBytes is the limit of a body.
const maxFuzzBytes = 64 << 10

// FuzzScrape shows the same for whatever a Pod sends over its connection, and that no more of it is read than allowed.
func FuzzScrape(f *testing.F) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n"
	whole := func(body string) []byte {
		return fmt.Appendf(nil, "%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
	}
	f.Add(whole(vllmPage(100)), whole(vllmPage(250)), 0)
	f.Add(whole(sglangPage(5)), []byte(head+"Content-Length: 9999\r\n\r\n"+sglangPage(9)), 2)
	f.Add([]byte(head+"Transfer-Encoding: chunked\r\n\r\n5\r\nvllm:\r\n0\r\n\r\n"), []byte(head+"Content-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x00"), 1)
	f.Add([]byte("HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n"), []byte("\x16\x03\x01garbage"), 0)
	for _, name := range []string{"vllm-v1-0.10.2.prom", "sglang-0.5.3-tp1.prom", "sglang-0.5.3-idle.prom"} {
		body, err := os.ReadFile(filepath.Join("..", "scrape", "testdata", name))
		require.NoError(f, err)
		f.Add(whole(string(body)), whole(string(body)), 0)
	}
	pod, send := rawEngine(f)
	scraper := scrape.New(scrape.Options{MaxBytes: maxFuzzBytes, DataParallel: scrape.Sum})
	f.Fuzz(func(t *testing.T, before, after []byte, kind int) {
		requireSanePasses(t, kind, before, after, func(response []byte) (scrape.Result, error) {
			send(response)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			result, err := scraper.Scrape(ctx, pod, "")
			require.NotEqual(t, observe.Timeout, scrape.ReasonOf(err), "the connection is closed, so nothing is to be waited for")
			require.LessOrEqual(t, result.Bytes, maxFuzzBytes+1)
			return result, err
		})
	})
}

// rawEngine is a Pod that answers every request with the bytes that were sent last, and closes the connection.
func rawEngine(f *testing.F) (pod observe.Pod, send func([]byte)) {
	f.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(f, err)
	f.Cleanup(func() { _ = listener.Close() })
	var response atomic.Value
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				answer, _ := response.Load().([]byte)
				_, _ = conn.Write(answer)
			}
			_ = conn.Close()
		}
	}()
	address, is := listener.Addr().(*net.TCPAddr)
	require.True(f, is)
	return observe.Pod{Address: address.IP.String(), Port: address.Port, Scheme: "http", Path: "/metrics"}, func(b []byte) { response.Store(b) }
}

// requireSanePasses plays three passes over two Pods.
func requireSanePasses(t *testing.T, kind int, before, after []byte, read func([]byte) (scrape.Result, error)) {
	t.Helper()
	a := observe.Assignment{Interval: 15 * time.Second, ReadyReplicas: 2, Pods: []observe.Pod{{Name: "p", UID: "p"}, {Name: "q", UID: "q"}}}
	a.Kind = []observe.RoleKind{observe.Server, observe.Prefill, observe.Decode}[uint(kind)%3]
	var role windows.Role
	for i, bodies := range [][2][]byte{{before, before}, {after, before}, {after, after}} {
		now := start.Add(time.Duration(i) * a.Interval)
		var results []windows.PodResult
		for _, body := range bodies {
			answer, err := read(body)
			result := windows.PodResult{At: now, Sample: answer.Sample}
			if err != nil {
				result.Reason = scrape.ReasonOf(err)
			}
			results = append(results, result)
		}
		o := role.Pass(a, now, now, results)
		for _, v := range []observe.Value{o.Running, o.Waiting, o.Prompt, o.RawPrompt, o.Generation, o.KVCacheUsage, o.TTFT.Value(), o.ITL.Value()} {
			require.True(t, v.Float64 >= 0 && !math.IsInf(v.Float64, 0), "%+v", o)
		}
		require.Equal(t, 2, o.Coverage.Rated+len(o.Coverage.Uncovered))
	}
}
