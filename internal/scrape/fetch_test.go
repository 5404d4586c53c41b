package scrape

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"gpustack.ai/model-deployment-scaler/internal/certs"
	"gpustack.ai/model-deployment-scaler/internal/certs/certstest"
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts an engine stand-in and says where its Pod is.
func serve(t *testing.T, handler http.HandlerFunc) observe.Pod {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return podAt(t, server.URL)
}

func podAt(t *testing.T, address string) observe.Pod {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	port, err := strconv.Atoi(u.Port())
	require.NoError(t, err)
	return observe.Pod{Name: "engine-0", Address: u.Hostname(), Port: port, Scheme: u.Scheme, Path: "/metrics"}
}

func answer(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{contentType}
		fmt.Fprint(w, body)
	}
}

func scraper(o Options) *Scraper {
	o.MaxBytes, o.DataParallel = 64<<10, Sum
	return New(o)
}

func scrapeIn(t *testing.T, s *Scraper, timeout time.Duration, pod observe.Pod) (observe.Sample, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	result, err := s.Scrape(ctx, pod, "")
	return result.Sample, err
}

func TestACleanAnswerIsASample(t *testing.T) {
	var got *http.Request
	pod := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		answer("text/plain; version=0.0.4", queue)(w, r)
	})
	pod.Path = "/metrics?engine=all"
	result, err := scraper(Options{}).Scrape(t.Context(), pod, "")
	require.NoError(t, err)
	require.Equal(t, observe.Known(3), result.Sample.Running)
	require.Equal(t, len(queue), result.Bytes)
	require.Equal(t, "/metrics?engine=all", got.URL.String())
	require.Equal(t, accept, got.Header.Get("Accept"))
	require.True(t, got.Close, "one connection per scrape")
}

func TestAnswersThatFailTheScrape(t *testing.T) {
	hijack := func(raw string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				fmt.Fprint(conn, raw)
				_ = conn.Close()
			}
		}
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, err := z.Write(make([]byte, 4<<20))
	require.NoError(t, err)
	require.NoError(t, z.Close())

	tests := []struct {
		name    string
		handler http.HandlerFunc
		reason  observe.UncoveredReason
	}{
		{"an error status, whatever the body", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, queue)
		}, observe.HTTPStatus},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/other", http.StatusFound) }, observe.HTTPStatus},
		{"a page for people", answer("text/html", "<html>"), observe.Malformed},
		{"another program", answer("text/plain", "go_goroutines 1\n"), observe.NoEngineSeries},
		{"a body over the limit", answer("text/plain", queue+strings.Repeat("x 1\n", 20000)), observe.TooLarge},
		{"an endless body", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(bytes.Repeat([]byte("x 1\n"), 1000)); err != nil {
					return
				}
			}
		}, observe.TooLarge},
		{"a small body that unzips to a large one", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		}, observe.TooLarge},
		{"a zipped body cut short", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(zipped(t, queue)[:20])
		}, observe.Malformed},
		{"a body that is not zipped as announced", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			answer("text/plain", queue)(w, r)
		}, observe.Malformed},
		{"an unknown encoding", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			answer("text/plain", queue)(w, r)
		}, observe.Malformed},
		{"a body shorter than announced", hijack("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + queue), observe.Malformed},
		{"chunks without the last one", hijack(fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(queue), queue)), observe.Malformed},
		{"no answer at all", hijack(""), observe.Unreachable},
		{"something that is not HTTP", hijack("SSH-2.0-OpenSSH_9.9\r\n\r\n"), observe.Malformed},
		{"endless headers", hijack("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", maxHeaderBytes+1) + "\r\n\r\n"), observe.Malformed},
	}
	s := scraper(Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sample, err := scrapeIn(t, s, 10*time.Second, serve(t, tt.handler))
			require.Error(t, err)
			require.Equal(t, tt.reason, ReasonOf(err), err)
			require.Equal(t, observe.Sample{}, sample)
			require.NotContains(t, err.Error(), "OpenSSH", "what others say is not repeated")
		})
	}
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

func TestAZippedAnswerIsReadAlthoughNobodyAskedForIt(t *testing.T) {
	s, err := scrapeIn(t, scraper(Options{}), 10*time.Second, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(zipped(t, queue))
	}))
	require.NoError(t, err)
	require.Equal(t, observe.Known(5), s.Waiting)
}

func TestTheDeadlineCoversHeadersAndBody(t *testing.T) {
	tests := []struct {
		name    string
		handler http.HandlerFunc
	}{
		{"headers never come", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		{"the body comes byte by byte", func(w http.ResponseWriter, r *http.Request) {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for r.Context().Err() == nil {
				fmt.Fprint(w, "#")
				w.(http.Flusher).Flush()
				<-tick.C
			}
		}},
		{"the body never ends", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, queue)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := scrapeIn(t, scraper(Options{}), 100*time.Millisecond, serve(t, tt.handler))
			require.Equal(t, observe.Timeout, ReasonOf(err), err)
		})
	}
}

func TestPodsThatCannotBeReached(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed := podAt(t, "http://"+listener.Addr().String())
	require.NoError(t, listener.Close())
	with := func(change func(*observe.Pod)) observe.Pod {
		p := closed
		change(&p)
		return p
	}
	tests := []struct {
		name string
		pod  observe.Pod
	}{
		{"nobody listens", closed},
		{"a name instead of an address", with(func(p *observe.Pod) { p.Address = "localhost" })},
		{"another scheme", with(func(p *observe.Pod) { p.Scheme = "file" })},
		{"no port", with(func(p *observe.Pod) { p.Port = 0 })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := scrapeIn(t, scraper(Options{}), 10*time.Second, tt.pod)
			require.Equal(t, observe.Unreachable, ReasonOf(err), err)
		})
	}
}

func TestProxiesOfTheEnvironmentAreNotUsed(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	_, err := scrapeIn(t, scraper(Options{}), 10*time.Second, serve(t, answer("text/plain", queue)))
	require.NoError(t, err)
}

// engineTLS serves the queue over TLS with a certificate for 127.0.0.1, and says which Authorization it was sent last.
func engineTLS(t *testing.T) (pod observe.Pod, authorities *certs.Source, authorization *atomic.Value) {
	t.Helper()
	authorization = &atomic.Value{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		authorization.Store(r.Header.Get("Authorization"))
		answer("text/plain", queue)(w, r)
	}))
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(ca, pemOf(server.Certificate().Raw), 0o600))
	source, err := certs.Load(certs.Files{CA: ca}, zap.NewNop())
	require.NoError(t, err)
	return podAt(t, server.URL), source, authorization
}

// none is what the system trusts, and no certificate of our own.
func none(t *testing.T) *certs.Source {
	t.Helper()
	source, err := certs.Load(certs.Files{}, zap.NewNop())
	require.NoError(t, err)
	return source
}

func TestAnEngineThatAsksForACertificateIsShownTheNewestOne(t *testing.T) {
	authority, err := certstest.NewAuthority("engines")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, authority.WriteLeaf(dir, "sampler.test"))
	files := certs.Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), CA: filepath.Join(dir, "ca.crt")}
	own, err := certs.Load(files, zap.NewNop())
	require.NoError(t, err)

	engineDir := t.TempDir()
	require.NoError(t, authority.WriteLeaf(engineDir, "127.0.0.1"))
	engine, err := certs.Load(certs.Files{Cert: filepath.Join(engineDir, "tls.crt"), Key: filepath.Join(engineDir, "tls.key"), CA: filepath.Join(engineDir, "ca.crt")}, zap.NewNop())
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(answer("text/plain", queue))
	server.TLS = engine.Server(certs.AllowNames("sampler.test"))
	server.StartTLS()
	t.Cleanup(server.Close)
	pod := podAt(t, server.URL)

	_, err = scrapeIn(t, scraper(Options{Certificates: own, InsecureSkipVerify: true}), 10*time.Second, pod)
	require.NoError(t, err)
	_, err = scrapeIn(t, scraper(Options{Certificates: none(t), InsecureSkipVerify: true}), 10*time.Second, pod)
	require.Equal(t, observe.Unreachable, ReasonOf(err), err)
}

func TestHTTPSIsVerifiedAgainstTheAuthoritiesForThePodsAddress(t *testing.T) {
	pod, authorities, _ := engineTLS(t)
	s := scraper(Options{Certificates: authorities})
	for range 2 { // the second resumes the session
		_, err := scrapeIn(t, s, 10*time.Second, pod)
		require.NoError(t, err)
	}
	other, err := certstest.NewAuthority("somebody else")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, other.WriteLeaf(dir, "x"))
	strangers, err := certs.Load(certs.Files{CA: filepath.Join(dir, "ca.crt")}, zap.NewNop())
	require.NoError(t, err)
	_, err = scrapeIn(t, scraper(Options{Certificates: strangers}), 10*time.Second, pod)
	require.Equal(t, observe.Unreachable, ReasonOf(err), err)
	require.ErrorContains(t, err, "certificate")
	_, err = scrapeIn(t, scraper(Options{Certificates: none(t), InsecureSkipVerify: true}), 10*time.Second, pod)
	require.NoError(t, err)
}

func TestTheBearerTokenGoesOutOverVerifiedHTTPSOnly(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("secret\n"), 0o600))
	pod, authorities, authorization := engineTLS(t)

	_, err := scrapeIn(t, scraper(Options{Certificates: authorities, BearerTokenFile: token}), 10*time.Second, pod)
	require.NoError(t, err)
	require.Equal(t, "Bearer secret", authorization.Load())
	_, err = scrapeIn(t, scraper(Options{Certificates: none(t), InsecureSkipVerify: true, BearerTokenFile: token}), 10*time.Second, pod)
	require.NoError(t, err)
	require.Empty(t, authorization.Load())

	plain := serve(t, func(w http.ResponseWriter, r *http.Request) {
		authorization.Store("plain: " + r.Header.Get("Authorization"))
		answer("text/plain", queue)(w, r)
	})
	_, err = scrapeIn(t, scraper(Options{BearerTokenFile: token}), 10*time.Second, plain)
	require.NoError(t, err)
	require.Equal(t, "plain: ", authorization.Load())

	require.NoError(t, os.Remove(token))
	_, err = scrapeIn(t, scraper(Options{Certificates: authorities, BearerTokenFile: token}), 10*time.Second, pod)
	require.ErrorContains(t, err, "bearer token")
}

func TestOldTLSIsNotSpoken(t *testing.T) {
	server := httptest.NewUnstartedServer(answer("text/plain", queue))
	server.TLS = &tls.Config{MaxVersion: tls.VersionTLS11}
	server.Config.ErrorLog = nil
	server.StartTLS()
	t.Cleanup(server.Close)
	_, err := scrapeIn(t, scraper(Options{Certificates: none(t), InsecureSkipVerify: true}), 10*time.Second, podAt(t, server.URL))
	require.Equal(t, observe.Unreachable, ReasonOf(err), err)
}

func TestTenThousandFailuresLeaveNothingOpen(t *testing.T) {
	slow := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, queue)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	cut := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, queue)
	})
	refused := slow
	refused.Port = 1
	failing := []struct {
		pod    observe.Pod
		reason observe.UncoveredReason
		times  int
	}{
		{slow, observe.Timeout, 100},
		{refused, observe.Unreachable, 2900},
		{cut, observe.Malformed, 3000},
		{serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }), observe.HTTPStatus, 2000},
		{serve(t, answer("text/html", "<html>")), observe.Malformed, 2000},
	}
	s := scraper(Options{})
	before := openFiles(t)
	for _, f := range failing {
		timeout := 10 * time.Second
		if f.reason == observe.Timeout {
			timeout = 5 * time.Millisecond
		}
		for range f.times {
			_, err := scrapeIn(t, s, timeout, f.pod)
			require.Equal(t, f.reason, ReasonOf(err), err)
		}
	}
	require.Eventually(t, func() bool { return openFiles(t) <= before+2 }, 10*time.Second, 10*time.Millisecond)
}

// A body of a gigabyte that was a megabyte on the wire: what is kept of it ends at the limit.
func TestABombTakesNoMoreMemoryThanTheLimit(t *testing.T) {
	bomb := bytes.Repeat(zipped(t, strings.Repeat("\x00", 1<<20)), 1<<10)
	require.Less(t, len(bomb), 2<<20)
	pod := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb)
	})
	s := New(Options{MaxBytes: 8 << 20, DataParallel: Sum})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := scrapeIn(t, s, 10*time.Second, pod)
	runtime.ReadMemStats(&after)
	require.Equal(t, observe.TooLarge, ReasonOf(err), err)
	require.Less(t, after.HeapAlloc, before.HeapAlloc+64<<20)
}

func TestALabelOfTwentyMegabytesOfSomebodyElseBlindsNobodyWhoAllowsIt(t *testing.T) {
	page := `x{a="` + strings.Repeat("y", 20<<20) + "\"} 1\n" + queue
	pod := serve(t, answer("text/plain", page))
	_, err := scrapeIn(t, New(Options{MaxBytes: 8 << 20, DataParallel: Sum}), time.Minute, pod)
	require.Equal(t, observe.TooLarge, ReasonOf(err), err)
	sample, err := scrapeIn(t, New(Options{MaxBytes: 32 << 20, DataParallel: Sum}), time.Minute, pod)
	require.NoError(t, err)
	require.Equal(t, observe.Known(5), sample.Waiting)
}

// openFiles counts this process's descriptors; where the system does not tell, goroutines stand in for them.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return runtime.NumGoroutine()
	}
	return len(entries)
}

func pemOf(der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}) }
