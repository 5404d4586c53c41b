package sampler

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"gpustack.ai/model-deployment-scaler/internal/certs"
	"gpustack.ai/model-deployment-scaler/internal/certs/certstest"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/process"
	"gpustack.ai/model-deployment-scaler/internal/stream"
)

const (
	samplerIdentity = "sampler.test.svc"
	deciderIdentity = "decider.test.svc"
)

// engine is an HTTP server that prints what an engine prints; its counters grow by 100 tokens a second since it started.
type engine struct {
	*httptest.Server
	format func(tokens int) string

	mu      sync.Mutex
	started time.Time
}

func newEngine(t *testing.T, format func(tokens int) string) *engine {
	e := &engine{format: format, started: time.Now().Add(-time.Hour)}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		e.mu.Lock()
		tokens := int(100 * time.Since(e.started).Seconds())
		e.mu.Unlock()
		fmt.Fprint(w, e.format(tokens))
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *engine) restart() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.started = time.Now()
}

func (e *engine) pod(t *testing.T, ordinal int) observe.Pod {
	u, err := url.Parse(e.URL)
	require.NoError(t, err)
	port, err := strconv.Atoi(u.Port())
	require.NoError(t, err)
	return observe.Pod{
		Name: fmt.Sprint("engine-", ordinal), UID: fmt.Sprint("uid-", ordinal), Incarnation: "c1", Ordinal: ordinal,
		Address: u.Hostname(), Port: port, Scheme: "http", Path: "/metrics",
	}
}

func vllmPage(tokens int) string {
	return fmt.Sprintf(`# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:prompt_tokens_total{engine="0",model_name="m"} %[1]d
vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_compute"} %[1]d
vllm:generation_tokens_total{engine="0",model_name="m"} %[1]d
vllm:inter_token_latency_seconds_bucket{engine="0",le="0.025",model_name="m"} %[1]d
vllm:inter_token_latency_seconds_bucket{engine="0",le="+Inf",model_name="m"} %[1]d
vllm:inter_token_latency_seconds_count{engine="0",model_name="m"} %[1]d
vllm:inter_token_latency_seconds_sum{engine="0",model_name="m"} %[1]d
`, tokens)
}

func sglangPage(tokens int) string {
	return fmt.Sprintf(`sglang:num_running_reqs{engine_type="unified",tp_rank="0"} 4.0
sglang:num_queue_reqs{engine_type="unified",tp_rank="0"} 1.0
sglang:token_usage{engine_type="unified",tp_rank="0"} 0.75
sglang:prompt_tokens_total{engine_type="unified"} %[1]d
sglang:generation_tokens_total{engine_type="unified"} %[1]d
`, tokens)
}

// running is a sampler over TLS, and the decider's end of its session.
type running struct {
	*stream.Pool
	address string
	tls     *tls.Config
	resign  func() // ends the session
	stop    context.CancelFunc
	stopped chan error

	mu  sync.Mutex
	out []observe.RoleObservation
}

func runSampler(t *testing.T) *running {
	t.Helper()
	authority, err := certstest.NewAuthority("test")
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	log := zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel))
	ctx, stop := context.WithCancel(t.Context())
	r := &running{stop: stop, stopped: make(chan error, 1)}

	o := NewOptions()
	o.ShardName, o.DeciderIdentity, o.TLS = "shard-0", deciderIdentity, identity(t, authority, samplerIdentity)
	require.NoError(t, o.Validate())
	p := &process.Process{Log: log, Registry: prometheus.NewRegistry(), Health: &process.Health{}, Version: "v1"}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.stopped <- serve(ctx, p, o, listener)
	}()

	source, err := certs.Load(identity(t, authority, deciderIdentity), log)
	require.NoError(t, err)
	r.address, r.tls = listener.Addr().String(), source.Client(samplerIdentity)
	t.Cleanup(func() { stop(); <-ended })
	r.lead(t, 1)
	return r
}

// lead opens the session of a decider.
func (r *running) lead(t *testing.T, transitions int64) {
	t.Helper()
	log := zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel))
	r.Pool = stream.NewPool(stream.PoolOptions{
		TLS: r.tls, Leader: "decider-0", Epoch: stream.Epoch{LeaseUID: "lease", Transitions: transitions}, ReplaySpan: 30 * time.Minute,
		OnObservation: func(_ string, o observe.RoleObservation, _ time.Time) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.out = append(r.out, o)
		},
		OnReplay: func(_ string, replay stream.Replay, at time.Time) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.out = append(r.out, replay.Observations(at)...)
		},
		OnChange: func() {}, Log: log, Registerer: prometheus.NewRegistry(),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.resign = sync.OnceFunc(func() { cancel(); require.NoError(t, <-done) })
	t.Cleanup(r.resign)
	r.SetMembers([]stream.Member{{Name: "sampler-0", Address: r.address}})
	require.Eventually(t, func() bool { return len(r.Live()) == 1 }, 10*time.Second, time.Millisecond)
}

func identity(t *testing.T, authority *certstest.Authority, name string) certs.Files {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, authority.WriteLeaf(dir, name))
	return certs.Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), CA: filepath.Join(dir, "ca.crt")}
}

// await waits for an observation and returns it with all that came since the previous await.
func (r *running) await(t *testing.T, what string, wanted func(observe.RoleObservation) bool) (observe.RoleObservation, []observe.RoleObservation) {
	t.Helper()
	var found observe.RoleObservation
	var seen []observe.RoleObservation
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for i, o := range r.out {
			if wanted(o) {
				found, seen = o, r.out[:i+1]
				r.out = r.out[i+1:]
				return true
			}
		}
		return false
	}, 60*time.Second, time.Millisecond, what)
	return found, seen
}

func rated(pods int) func(observe.RoleObservation) bool {
	return func(o observe.RoleObservation) bool { return o.Coverage.Rated == pods }
}

func hasReset(o observe.RoleObservation) bool {
	return len(o.Coverage.Uncovered) == 1 && o.Coverage.Uncovered[0].Reason == observe.Reset
}

func TestASamplerScrapesWhatItIsAssignedAndStreamsWhatItSaw(t *testing.T) {
	for engineName, page := range map[observe.Engine]func(int) string{observe.VLLM: vllmPage, observe.SGLang: sglangPage} {
		t.Run(string(engineName), func(t *testing.T) {
			t.Parallel() // it mostly waits
			first, second := newEngine(t, page), newEngine(t, page)
			r := runSampler(t)
			a := observe.Assignment{
				Key:  observe.RoleKey{Namespace: "default", Deployment: "llm", UID: "uid", Role: "server"},
				Kind: observe.Server, Engine: "whatever", Interval: 2 * time.Second, ReadyReplicas: 2, LastScrapeAge: -1,
				Pods: []observe.Pod{first.pod(t, 0), second.pod(t, 1)},
			}
			r.Assign(map[string][]observe.Assignment{"shard-0": {a}})

			o, seen := r.await(t, "rates of both engines", rated(2))
			require.Equal(t, engineName, o.Engine)
			require.Equal(t, observe.Fresh, o.State)
			require.True(t, o.Coverage.RatesComplete())
			require.InDelta(t, 10, o.Running.Float64+o.Waiting.Float64, 0)
			require.InDelta(t, 200, o.Prompt.Float64, 60)
			require.InDelta(t, 200, o.Generation.Float64, 60)
			require.True(t, o.KVCacheUsage.Valid)
			require.Equal(t, engineName == observe.VLLM, o.ITL.Value().Valid)
			require.Less(t, o.Age, 10*time.Second)
			require.False(t, seen[0].Prompt.Valid, "no rate after one scrape")

			first.restart()
			o, seen = r.await(t, "the restart", hasReset)
			require.Equal(t, "engine-0", o.Coverage.Uncovered[0].Name)
			require.True(t, o.Coverage.Complete())
			_, more := r.await(t, "rates after the restart", rated(2))
			for _, o := range append(seen, more...) {
				require.GreaterOrEqual(t, o.Generation.Float64, 0.0)
				require.LessOrEqual(t, o.Generation.Float64, 400.0, "a restart is no traffic")
			}

			a.Pods = slices.Clone(a.Pods) // the pool holds the other one
			a.Pods[1].Incarnation = "c2"
			r.Assign(map[string][]observe.Assignment{"shard-0": {a}})
			o, _ = r.await(t, "the new container", hasReset)
			require.Equal(t, "engine-1", o.Coverage.Uncovered[0].Name)

			second.Close()
			o, _ = r.await(t, "the lost engine", func(o observe.RoleObservation) bool { return o.Coverage.Answered == 1 })
			require.Equal(t, observe.Unreachable, o.Coverage.Uncovered[0].Reason)
			require.False(t, o.Coverage.Complete())

			r.stop()
			require.Eventually(t, func() bool { return len(r.Live()) == 0 }, 10*time.Second, time.Millisecond, "it says that it drains")
			r.Assign(nil)
			require.NoError(t, <-r.stopped)
		})
	}
}

func TestANewLeaderIsToldTheHistoryAndTheLatestAtOnce(t *testing.T) {
	engine := newEngine(t, vllmPage)
	r := runSampler(t)
	of := func(role string) observe.Assignment {
		return observe.Assignment{
			Key:  observe.RoleKey{Namespace: "default", Deployment: "llm", UID: "uid", Role: role},
			Kind: observe.Server, Interval: 500 * time.Millisecond, ReadyReplicas: 1, LastScrapeAge: -1, Pods: []observe.Pod{engine.pod(t, 0)},
		}
	}
	slow := of("slow")
	slow.Interval, slow.LastScrapeAge = 30*time.Second, 30*time.Second // scraped at once, and not again in this test
	r.Assign(map[string][]observe.Assignment{"shard-0": {of("stays"), of("moves"), slow}})
	r.await(t, "the first pass over the slow role", func(o observe.RoleObservation) bool { return o.Key.Role == "slow" })
	r.await(t, "rates", func(o observe.RoleObservation) bool { return o.Key.Role == "moves" && o.Sequence >= 3 })
	r.Assign(map[string][]observe.Assignment{"shard-0": {of("stays"), slow}})
	r.await(t, "a pass after the move", func(o observe.RoleObservation) bool { return o.Key.Role == "stays" && o.Sequence >= 6 })
	r.resign()

	r.mu.Lock()
	r.out = nil
	r.mu.Unlock()
	r.lead(t, 2)
	latest, seen := r.await(t, "the latest of the slow role", func(o observe.RoleObservation) bool { return o.Key.Role == "slow" })
	require.False(t, latest.Replayed, "it is what a pass can go by")
	require.False(t, slices.ContainsFunc(seen, func(o observe.RoleObservation) bool { return o.Replayed }), "it does not wait for history")
	var replayed map[string]int
	require.Eventually(t, func() bool {
		replayed = map[string]int{}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, o := range r.out {
			if o.Replayed {
				replayed[o.Key.Role]++
			}
		}
		return replayed["moves"] >= 3 && replayed["stays"] >= 5
	}, 60*time.Second, time.Millisecond, "what moved away is history, all of it")
	require.Zero(t, replayed["slow"])
}

func TestASamplerThatCannotStartSaysWhy(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	p := &process.Process{Log: zap.NewNop(), Registry: prometheus.NewRegistry(), Health: &process.Health{}}

	o := NewOptions()
	o.InsecureLoopback, o.GRPCAddress = true, taken.Addr().String()
	require.ErrorContains(t, Run(t.Context(), p, o), "--grpc-address")

	o.GRPCAddress, o.EngineTLS.CA = "127.0.0.1:0", filepath.Join(t.TempDir(), "missing")
	require.ErrorContains(t, Run(t.Context(), p, o), "--engine-ca-file")
}

func TestASamplerWaitsForItsCertificate(t *testing.T) {
	authority, err := certstest.NewAuthority("test")
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	dir := t.TempDir()
	o := NewOptions()
	o.DeciderIdentity, o.TLS = deciderIdentity, certs.Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), CA: filepath.Join(dir, "ca.crt")}
	p := &process.Process{Log: zap.NewNop(), Registry: prometheus.NewRegistry(), Health: &process.Health{}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, p, o, listener) }()

	decider, err := certs.Load(identity(t, authority, deciderIdentity), zap.NewNop())
	require.NoError(t, err)
	connect := func() error {
		connection, err := tls.Dial("tcp", listener.Addr().String(), decider.Client(samplerIdentity))
		if err != nil {
			return err
		}
		return connection.Close()
	}
	require.Error(t, connect(), "there is nothing to show yet")
	require.NoError(t, authority.WriteLeaf(dir, samplerIdentity))
	require.Eventually(t, func() bool { return connect() == nil }, 20*time.Second, 10*time.Millisecond)
	stop()
	require.NoError(t, <-ended)
}
