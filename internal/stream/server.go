package stream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/process"
)

// drainTimeout is how long a session may go on after Draining.
const drainTimeout = 5 * time.Second

// ServerOptions say who a sampler is and who may call it.
type ServerOptions struct {
	// Shard is the sampler's stable name; Node the node that runs it, empty when unknown; Version the program's.
	Shard, Node, Version string
	// CapacityScrapesPerSecond that the sampler can do; above 0.
	CapacityScrapesPerSecond float64
	// Sessions judges the certificate of who opens a session, Observers of who watches (D51). TLS has verified it before.
	// Sessions is needed with TLS; without Observers nobody may watch. Both are unused on insecure loopback.
	Sessions, Observers func(*x509.Certificate) error
	Log                 *zap.Logger
	Registerer          prometheus.Registerer
}

// Server is a sampler's gRPC server: SamplerService, health and reflection.
type Server struct {
	observationv1.UnsafeSamplerServiceServer

	options    ServerOptions
	backend    Backend
	metrics    serverMetrics
	hub        *hub
	leadership *leadership
	secure     bool // certificates are checked; set before the first call
	watches    atomic.Int32
	draining   chan struct{} // closed when the server is about to stop
}

// NewServer makes a server of backend, with its metrics registered.
func NewServer(options ServerOptions, backend Backend) *Server {
	return &Server{
		options:    options,
		backend:    backend,
		metrics:    newServerMetrics(options.Registerer),
		hub:        newHub(),
		leadership: &leadership{backend: backend},
		draining:   make(chan struct{}),
	}
}

// Publish hands a new observation, Age as of now, to the session and to every watch. It never blocks: a reader that is too
// slow loses the older observation of the role.
func (s *Server) Publish(o observe.RoleObservation) {
	s.metrics.dropped.Add(float64(s.hub.publish(stamped{o, time.Now()})))
}

// Serve accepts connections until ctx ends, then tells the session that this sampler drains, gives it 5 s to move the roles,
// and returns nil. Without TLS (nil) the listener must be on a loopback address. A server serves once.
func (s *Server) Serve(ctx context.Context, listener net.Listener, config *tls.Config) error {
	if err := s.secureEnough(listener.Addr(), config); err != nil {
		return errors.Join(fmt.Errorf("serving gRPC on %s: %w", listener.Addr(), err), listener.Close())
	}
	if config == nil {
		return s.serve(ctx, listener, insecure.NewCredentials())
	}
	s.secure = true
	return s.serve(ctx, listener, credentials.NewTLS(config))
}

func (s *Server) secureEnough(address net.Addr, config *tls.Config) error {
	switch {
	case config == nil && !process.IsLoopback(address.String()):
		return errors.New("without TLS only a loopback address may be served: give certificate files or listen on 127.0.0.1")
	case config != nil && s.options.Sessions == nil:
		return errors.New("with TLS it must be said whose certificate may open a session")
	}
	return nil
}

func (s *Server) serve(ctx context.Context, listener net.Listener, creds credentials.TransportCredentials) error {
	server := NewGRPC(creds, s.options.Log)
	observationv1.RegisterSamplerServiceServer(server, s)
	reflection.Register(server)
	checks := health.NewServer()
	checks.SetServingStatus(observationv1.SamplerService_ServiceDesc.ServiceName, healthv1.HealthCheckResponse_SERVING)
	healthv1.RegisterHealthServer(server, checks)
	return ServeGRPC(ctx, server, listener, func() {
		checks.Shutdown() // says NOT_SERVING for every service
		close(s.draining)
	})
}
