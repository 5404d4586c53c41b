package stream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/internal/certs"
	"gpustack.ai/model-deployment-scaler/internal/certs/certstest"
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

func TestDrainingTellsTheLeaderAndWaitsForItsGoodbye(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := startSampler(t, "shard-0")
		l := s.lead(t, "a", Epoch{"lease", 1}, 0)
		l.next()
		start := time.Now()
		s.stop()
		require.NotEmpty(t, l.next().GetDraining().GetReason())
		s.Publish(observation("server", 1))
		require.NotNil(t, l.next().GetObservation(), "observations go on until the roles have moved")
		require.NoError(t, l.stream.CloseSend())
		_, err := l.stream.Recv()
		require.ErrorContains(t, err, "EOF")
		l.close()
		require.NoError(t, <-s.stopped)
		require.Less(t, time.Since(start), time.Second)
		require.Equal(t, []string{"started a", "ended"}, s.backend.told())
	})
}

func TestDrainingEndsAfterItsDeadlineWithALeaderThatStays(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := startSampler(t, "shard-0")
		l := s.lead(t, "a", Epoch{"lease", 1}, 0)
		l.next()
		start := time.Now()
		s.stop()
		require.NotNil(t, l.next().GetDraining())
		err := l.fails()
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.ErrorContains(t, err, "stopping")
		require.NoError(t, <-s.stopped)
		require.Equal(t, drainTimeout, time.Since(start))
		l.close()
	})
}

func TestAStopIsForcedOnALeaderThatDoesNotRead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := startSampler(t, "shard-0")
		l := s.lead(t, "a", Epoch{"lease", 1}, 0)
		l.next()
		for sequence := range uint64(50) {
			s.Publish(heavy("server", sequence))
			synctest.Wait() // the sender goes as far as flow control lets it
		}
		require.Positive(t, count(s.metrics.dropped), "the sender is stuck")
		start := time.Now()
		s.stop()
		err := <-s.stopped
		l.close()
		require.NoError(t, err)
		require.Equal(t, stopTimeout, time.Since(start))
	})
}

func TestHealthIsServedPerServiceAndFallsBeforeTheSessionsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := startSampler(t, "shard-0")
		l := s.lead(t, "a", Epoch{"lease", 1}, 0)
		l.next()
		conn := s.client(t)
		watch, err := healthv1.NewHealthClient(conn).Watch(t.Context(), &healthv1.HealthCheckRequest{Service: "modelscaler.observation.v1.SamplerService"})
		require.NoError(t, err)
		answer, err := watch.Recv()
		require.NoError(t, err)
		require.Equal(t, healthv1.HealthCheckResponse_SERVING, answer.GetStatus())
		s.stop()
		answer, err = watch.Recv()
		require.NoError(t, err)
		require.Equal(t, healthv1.HealthCheckResponse_NOT_SERVING, answer.GetStatus())
		require.NotNil(t, l.next().GetDraining())
		require.NoError(t, conn.Close())
		l.close()
		require.NoError(t, <-s.stopped)
	})
}

func TestWatchShowsTheLatestOfSelectedRolesThenEveryNewOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := startSampler(t, "shard-0")
		other := observation("server", 5)
		other.Key.Namespace = "elsewhere"
		s.backend.latest = []observe.RoleObservation{other, observation("server", 9)}
		conn := s.client(t)
		watch, err := observationv1.NewSamplerServiceClient(conn).Watch(t.Context(), &observationv1.SamplerServiceWatchRequest{Namespace: "ns"})
		require.NoError(t, err)
		first, err := watch.Recv()
		require.NoError(t, err)
		require.Equal(t, uint64(9), first.GetObservation().GetSequence())
		other.Sequence = 6
		s.Publish(other)
		s.Publish(observation("server", 10))
		second, err := watch.Recv()
		require.NoError(t, err)
		require.Equal(t, uint64(10), second.GetObservation().GetSequence())
		start := time.Now()
		s.stop()
		_, err = watch.Recv()
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.ErrorContains(t, err, "stopping")
		require.NoError(t, <-s.stopped)
		require.Zero(t, time.Since(start))
		require.NoError(t, conn.Close())
	})
}

func TestWatchesAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := startSampler(t, "shard-0")
		s.backend.latest = []observe.RoleObservation{observation("server", 1)}
		var conns []*grpc.ClientConn
		open := func() error {
			conn := s.client(t)
			conns = append(conns, conn)
			watch, err := observationv1.NewSamplerServiceClient(conn).Watch(t.Context(), &observationv1.SamplerServiceWatchRequest{})
			require.NoError(t, err)
			_, err = watch.Recv()
			return err
		}
		for range maxWatches {
			require.NoError(t, open())
		}
		require.Equal(t, codes.ResourceExhausted, status.Code(open()))
		require.NoError(t, conns[0].Close())
		synctest.Wait()
		require.NoError(t, open(), "a watch that ended makes room")
		for _, conn := range conns[1:] {
			require.NoError(t, conn.Close())
		}
		s.halt(t)
	})
}

func TestServingIsRefusedWhereItWouldBeOpenToOthers(t *testing.T) {
	allow := func(*x509.Certificate) error { return nil }
	for name, row := range map[string]struct {
		address  string
		config   *tls.Config
		sessions func(*x509.Certificate) error
		want     string
	}{
		"without TLS on every address":          {"0.0.0.0:0", nil, nil, "only a loopback address"},
		"with TLS but without judge of leaders": {"127.0.0.1:0", &tls.Config{}, nil, "whose certificate may open a session"},
		"with TLS and a judge":                  {"127.0.0.1:0", &tls.Config{}, allow, ""},
		"without TLS on loopback":               {"127.0.0.1:0", nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", row.address)
			require.NoError(t, err)
			s := NewServer(ServerOptions{Shard: "s", Sessions: row.sessions, Log: zap.NewNop(), Registerer: prometheus.NewRegistry()}, &recorder{})
			ctx, cancel := context.WithCancel(t.Context())
			if row.want == "" {
				cancel() // stops at once
				require.NoError(t, s.Serve(ctx, listener, row.config))
				return
			}
			defer cancel()
			require.ErrorContains(t, s.Serve(ctx, listener, row.config), row.want)
			require.ErrorIs(t, listener.Close(), net.ErrClosed)
		})
	}
}

func TestServingSaysWhenItsListenerIsGone(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	s := NewServer(ServerOptions{Shard: "s", Log: zap.NewNop(), Registerer: prometheus.NewRegistry()}, &recorder{})
	require.ErrorContains(t, s.Serve(t.Context(), listener, nil), "serving gRPC on 127.0.0.1:")
}

func TestAPanicInAUnaryCallIsAnInternalError(t *testing.T) {
	_, err := recoverUnary(zap.NewNop())(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/x"}, func(context.Context, any) (any, error) { panic("broken") })
	require.Equal(t, codes.Internal, status.Code(err))
}

const (
	serverIdentity   = "sampler.test.svc"
	deciderIdentity  = "decider.test.svc"
	observerIdentity = "observer.test.svc"
)

// secureSampler serves real TLS on loopback.
func secureSampler(t *testing.T, authority *certstest.Authority) (*Server, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := NewServer(ServerOptions{
		Shard: "shard-0", Sessions: certs.AllowNames(deciderIdentity), Observers: certs.AllowNames(observerIdentity),
		Log: zap.NewNop(), Registerer: prometheus.NewRegistry(),
	}, &recorder{latest: []observe.RoleObservation{observation("server", 1)}})
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	everybody := func(*x509.Certificate) error { return nil }
	config := identity(t, authority, serverIdentity).Server(everybody)
	go func() { stopped <- s.Serve(ctx, listener, config) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-stopped) })
	return s, listener.Addr().String()
}

// identity is a fresh certificate for name.
func identity(t *testing.T, authority *certstest.Authority, name string) *certs.Source {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, authority.WriteLeaf(dir, name))
	source, err := certs.Load(certs.Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), CA: filepath.Join(dir, "ca.crt")}, zap.NewNop())
	require.NoError(t, err)
	return source
}

func newAuthority(t *testing.T) *certstest.Authority {
	t.Helper()
	a, err := certstest.NewAuthority("test")
	require.NoError(t, err)
	return a
}

func TestOnlyTheRightCertificateMayCall(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	s, address := secureSampler(t, ours)
	anonymous := identity(t, ours, deciderIdentity).Client(serverIdentity)
	anonymous.GetClientCertificate = nil

	for name, row := range map[string]struct {
		creds          credentials.TransportCredentials
		session, watch codes.Code
	}{
		"the decider opens sessions and does not watch": {credentials.NewTLS(identity(t, ours, deciderIdentity).Client(serverIdentity)), codes.OK, codes.PermissionDenied},
		"an observer watches and opens no session":      {credentials.NewTLS(identity(t, ours, observerIdentity).Client(serverIdentity)), codes.PermissionDenied, codes.OK},
		"another identity of our authority":             {credentials.NewTLS(identity(t, ours, "other.test.svc").Client(serverIdentity)), codes.PermissionDenied, codes.PermissionDenied},
		"the decider's name from another authority":     {credentials.NewTLS(lenient(identity(t, theirs, deciderIdentity).Client(serverIdentity))), codes.Unavailable, codes.Unavailable},
		"no client certificate":                         {credentials.NewTLS(anonymous), codes.Unavailable, codes.Unavailable},
		"plaintext":                                     {insecure.NewCredentials(), codes.Unavailable, codes.Unavailable},
		"a client that expects another server":          {credentials.NewTLS(identity(t, ours, deciderIdentity).Client("other.test.svc")), codes.Unavailable, codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(row.creds))
			require.NoError(t, err)
			defer conn.Close()
			client := observationv1.NewSamplerServiceClient(conn)
			refused := count(s.metrics.refused.WithLabelValues(refusedIdentity))
			require.Equal(t, row.session, status.Code(trySession(t, client)))
			require.Equal(t, row.watch, status.Code(tryWatch(t, client)))
			want := refused
			for _, code := range []codes.Code{row.session, row.watch} {
				if code == codes.PermissionDenied {
					want++
				}
			}
			require.Equal(t, want, count(s.metrics.refused.WithLabelValues(refusedIdentity)))
		})
	}
}

// lenient makes a client that does not judge the server: the server is to refuse it.
func lenient(c *tls.Config) *tls.Config {
	c.VerifyConnection = nil
	return c
}

func trySession(t *testing.T, client observationv1.SamplerServiceClient) error {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := client.Session(ctx)
	if err != nil {
		return err
	}
	_ = stream.Send(helloRequest(hello("a", Epoch{"lease", 1}, 0)))
	_, err = stream.Recv()
	return err
}

func tryWatch(t *testing.T, client observationv1.SamplerServiceClient) error {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := client.Watch(ctx, &observationv1.SamplerServiceWatchRequest{})
	if err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}

func TestWithoutListedObserversNobodyMayWatch(t *testing.T) {
	s := &Server{secure: true, metrics: newServerMetrics(prometheus.NewRegistry())}
	require.Equal(t, codes.Unauthenticated, status.Code(s.authorise(t.Context(), nil)))
	s.secure = false
	require.NoError(t, s.authorise(t.Context(), nil), "on insecure loopback everybody of this machine may")
}

func TestReflectionListsTheServices(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := startSampler(t, "shard-0")
		conn := s.client(t)
		stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
		require.NoError(t, err)
		require.NoError(t, stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}))
		answer, err := stream.Recv()
		require.NoError(t, err)
		var names []string
		for _, service := range answer.GetListServicesResponse().GetService() {
			names = append(names, service.GetName())
		}
		require.Contains(t, names, "modelscaler.observation.v1.SamplerService")
		require.Contains(t, names, "grpc.health.v1.Health")
		require.NoError(t, conn.Close())
		s.halt(t)
	})
}

func TestMessagesOverOneMebibyteAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := startSampler(t, "shard-0")
		l := s.lead(t, "a", Epoch{"lease", 1}, 0)
		defer l.close()
		l.next()
		huge := &observationv1.Assign{Revision: 1, Removals: []*observationv1.RoleKey{{Namespace: string(make([]byte, MaxMessage))}}}
		l.assign(huge)
		require.Equal(t, codes.ResourceExhausted, status.Code(l.fails()))
		require.Empty(t, s.backend.assigned())
		s.stop()
	})
}
