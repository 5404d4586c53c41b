package stream

import (
	"context"
	"iter"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a backend that remembers what it was told, as lines and as assignments.
type recorder struct {
	mu       sync.Mutex
	lines    []string
	applied  []Assign
	history  []observe.RoleObservation
	latest   []observe.RoleObservation
	replayed time.Duration
	onApply  func(Assign)
}

func (r *recorder) SessionStarted(leader string) { r.line("started " + leader) }
func (r *recorder) SessionEnded()                { r.line("ended") }

func (r *recorder) Apply(a Assign) {
	r.mu.Lock()
	r.applied = append(r.applied, a)
	r.mu.Unlock()
	if r.onApply != nil {
		r.onApply(a)
	}
}

func (r *recorder) Replay(span time.Duration) iter.Seq[observe.RoleObservation] {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replayed = span
	return slices.Values(r.history)
}

func (r *recorder) Latest() []observe.RoleObservation { return r.latest }

func (r *recorder) line(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, s)
}

func (r *recorder) told() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.lines...)
}

func (r *recorder) assigned() []Assign {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Assign(nil), r.applied...)
}

// sampler is a server on a pipe instead of a network, so that it lives in a synctest bubble.
type sampler struct {
	*Server
	backend  *recorder
	logs     *observer.ObservedLogs
	listener *bufconn.Listener
	stop     context.CancelFunc
	stopped  chan error
}

func startSampler(t *testing.T, shard string) *sampler {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	s := &sampler{backend: &recorder{}, logs: logs, listener: bufconn.Listen(1 << 20), stopped: make(chan error, 1)}
	s.Server = NewServer(ServerOptions{
		Shard: shard, Node: "node-1", Version: "v1", CapacityScrapesPerSecond: 200, Log: zap.New(core), Registerer: prometheus.NewRegistry(),
	}, s.backend)
	ctx, cancel := context.WithCancel(t.Context())
	s.stop = cancel
	go func() { s.stopped <- s.serve(ctx, s.listener, insecure.NewCredentials()) }()
	return s
}

func (s *sampler) DialContext(ctx context.Context) (net.Conn, error) {
	return s.listener.DialContext(ctx)
}

// halt stops the sampler and waits for its end.
func (s *sampler) halt(t *testing.T) {
	s.stop()
	require.NoError(t, <-s.stopped)
}

func (s *sampler) client(t *testing.T) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///sampler", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return s.listener.DialContext(ctx) }))
	require.NoError(t, err)
	return conn
}

// leader is a hand-held client of one session.
type leader struct {
	t      *testing.T
	stream observationv1.SamplerService_SessionClient
	close  func()
}

// lead opens a stream and says hello.
func (s *sampler) lead(t *testing.T, identity string, epoch Epoch, replay time.Duration) *leader {
	t.Helper()
	conn := s.client(t)
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := observationv1.NewSamplerServiceClient(conn).Session(ctx)
	require.NoError(t, err)
	l := &leader{t, stream, func() { cancel(); _ = conn.Close() }}
	l.say(&observationv1.SessionRequest{Message: &observationv1.SessionRequest_Hello{Hello: hello(identity, epoch, replay)}})
	return l
}

func (l *leader) say(m *observationv1.SessionRequest) {
	l.t.Helper()
	require.NoError(l.t, l.stream.Send(m))
}

func (l *leader) assign(a *observationv1.Assign) {
	l.t.Helper()
	l.say(&observationv1.SessionRequest{Message: &observationv1.SessionRequest_Assign{Assign: a}})
}

func (l *leader) next() *observationv1.SessionResponse {
	l.t.Helper()
	m, err := l.stream.Recv()
	require.NoError(l.t, err)
	return m
}

func (l *leader) fails() error {
	l.t.Helper()
	for {
		if _, err := l.stream.Recv(); err != nil {
			return err
		}
	}
}

// count is the value of a metric that counts things.
func count(c prometheus.Collector) int { return int(testutil.ToFloat64(c)) }

// inBubble runs f in a synctest bubble: time is the bubble's, and no goroutine may be left.
func inBubble(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }
