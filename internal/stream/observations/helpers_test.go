package observations

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	authenticationv1 "k8s.io/api/authentication/v1"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/internal/decide"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const audience = "decider.test.svc"

// registrar answers reviews: token "ann" is user ann, who may watch namespace "a" and nothing else.
type registrar struct {
	mu     sync.Mutex
	asked  int
	down   bool
	rights map[string][]string // namespaces by user
}

func newRegistrar() *registrar {
	return &registrar{rights: map[string][]string{"ann": {"a"}, "root": {"", "a", "b"}}}
}

func (r *registrar) set(change func(*registrar)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

func (r *registrar) questions() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

func (r *registrar) Authenticate(_ context.Context, token string) (authenticationv1.UserInfo, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if r.down {
		return authenticationv1.UserInfo{}, "", errors.New("connection refused")
	}
	if _, known := r.rights[token]; !known {
		return authenticationv1.UserInfo{}, "it is for another audience", nil
	}
	return authenticationv1.UserInfo{Username: token, Groups: []string{"people"}}, "", nil
}

func (r *registrar) MayWatch(_ context.Context, user authenticationv1.UserInfo, namespace string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if r.down {
		return "", errors.New("connection refused")
	}
	for _, n := range r.rights[user.Username] {
		if n == namespace {
			return "", nil
		}
	}
	return fmt.Sprintf("%s may not watch namespace %q", user.Username, namespace), nil
}

// served is a server on a pipe, so that it lives in a synctest bubble. Callers are known by tokens.
type served struct {
	*Server
	t         *testing.T
	registrar *registrar
	client    observationv1.ObservationServiceClient
	conn      *grpc.ClientConn
	stop      context.CancelFunc
	stopped   chan error
}

func serve(t *testing.T) *served {
	t.Helper()
	s := &served{t: t, registrar: newRegistrar(), stopped: make(chan error, 1)}
	s.Server = NewServer(Options{
		Identity: "decider-0", Leader: func() Leader { return Leader{} },
		Access: &AccessOptions{Audience: audience, Reviewer: s.registrar}, Log: zap.NewNop(), Registerer: prometheus.NewRegistry(),
	})
	listener := bufconn.Listen(1 << 20)
	ctx, cancel := context.WithCancel(t.Context())
	s.stop = cancel
	go func() { s.stopped <- s.serve(ctx, listener, insecure.NewCredentials()) }()
	var err error
	s.conn, err = grpc.NewClient("passthrough:///pipe", append(stream.DialOptions(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))...)
	require.NoError(t, err)
	s.client = observationv1.NewObservationServiceClient(s.conn)
	return s
}

// halt stops everything and waits for it.
func (s *served) halt() {
	_ = s.conn.Close()
	s.stop()
	require.NoError(s.t, <-s.stopped)
}

func as(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// watcher reads one watch.
type watcher struct {
	t      *testing.T
	stream grpc.ServerStreamingClient[observationv1.ObservationServiceWatchResponse]
}

func (s *served) watch(token string, selector *observationv1.ObservationSelector) *watcher {
	s.t.Helper()
	stream, err := s.client.Watch(as(s.t.Context(), token), &observationv1.ObservationServiceWatchRequest{Selector: selector})
	require.NoError(s.t, err)
	return &watcher{s.t, stream}
}

// next is the next message in short: "a/chat/server=3", "complete by decider-0", "a/chat/server is gone".
func (w *watcher) next() string {
	w.t.Helper()
	m, err := w.stream.Recv()
	require.NoError(w.t, err)
	return short(m)
}

func (w *watcher) fails(code codes.Code, words string) {
	w.t.Helper()
	for {
		if _, err := w.stream.Recv(); err != nil {
			require.Equal(w.t, code, status.Code(err), err)
			require.ErrorContains(w.t, err, words)
			return
		}
	}
}

func short(m *observationv1.ObservationServiceWatchResponse) string {
	switch {
	case m.GetSnapshotComplete() != nil:
		line := "complete by " + m.GetSnapshotComplete().GetLeader()
		if by := m.GetSnapshotComplete().GetForwardedBy(); by != "" {
			line += " through " + by
		}
		return line
	case m.GetRemoved() != nil:
		r := m.GetRemoved()
		return r.GetNamespace() + "/" + r.GetScaler() + "/" + r.GetRole() + " is gone"
	default:
		return shortOf(m.GetObservation())
	}
}

func shortOf(o *observationv1.ScalerObservation) string {
	return fmt.Sprintf("%s/%s/%s=%d", o.GetNamespace(), o.GetScaler(), o.GetRole(), o.GetPlan().GetConstrainedReplicas())
}

// pass of a scaler whose roles all come to count.
func pass(namespace, scaler string, count int32, roles ...string) Pass {
	p := Pass{Namespace: namespace, Scaler: scaler, Time: time.Now()}
	for _, name := range roles {
		p.Roles = append(p.Roles, Role{
			Name: name, Shard: "sampler-0", Current: 1, Ready: 1, Raw: count, Constrained: count, Signal: observe.Fresh, Reason: "Proportional",
			Observation: &observe.RoleObservation{
				Key: observe.RoleKey{Namespace: namespace, Deployment: scaler, UID: "u", Role: name}, Running: observe.Known(float64(count)), Age: time.Second,
			},
			Trace: []decide.Step{{Stage: decide.StageRecommend, Replicas: count, Rule: "Proportional"}},
		})
	}
	return p
}

func count(c prometheus.Collector) int { return int(testutil.ToFloat64(c)) }

func (s *served) refused(reason string) int { return count(s.metrics.refused.WithLabelValues(reason)) }

// inBubble runs f with a server in a synctest bubble: time is the bubble's, and no goroutine may be left.
func inBubble(t *testing.T, f func(t *testing.T, s *served)) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		defer s.halt()
		f(t, s)
	})
}
