package observations

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/internal/process"
	"gpustack.ai/model-deployment-scaler/internal/stream"
)

const (
	// maxIdle is how long a connection without a call stays open: nobody who is not known holds one for long.
	maxIdle = 5 * time.Minute
	// maxAge of a connection that takes new calls. Clients connect anew, with the certificates of then; open watches go on.
	maxAge = time.Hour
)

// Leader is the copy that leads.
type Leader struct {
	// Identity that holds the Lease; empty when nobody does.
	Identity string
	// Address, host:port, of its ObservationService; empty when it is not known.
	Address string
}

// Options of a Server.
type Options struct {
	// Identity of this copy, as holder of the Lease.
	Identity string
	// Leader says who leads, as far as this copy knows.
	Leader func() Leader
	// Server is the TLS of this server: it must ask for client certificates and leave them unverified. Client is that of
	// connections to the leader. Access says who may call. Without TLS (all nil) everybody on this machine may.
	Server, Client *tls.Config
	Access         *AccessOptions
	Log            *zap.Logger
	Registerer     prometheus.Registerer
}

// Server is one copy's ObservationService, with health and reflection.
type Server struct {
	observationv1.UnsafeObservationServiceServer

	options  Options
	metrics  metrics
	access   *access // nil: everybody may
	places   places
	forward  *forwarder
	view     atomic.Pointer[View] // nil: this copy does not lead
	draining chan struct{}        // closed when the server is about to stop
}

// NewServer makes a server that stands by, with its metrics registered.
func NewServer(o Options) *Server {
	s := &Server{
		options: o, metrics: newMetrics(o.Registerer), places: places{byUser: make(map[string]int)},
		forward: &forwarder{config: o.Client}, draining: make(chan struct{}),
	}
	if o.Access != nil {
		s.access = newAccess(*o.Access, s.metrics)
	}
	return s
}

// Lead begins a leadership of this copy: calls are answered from the view until its End.
func (s *Server) Lead() *View {
	v := NewView(s.metrics.dropped)
	s.view.Store(v)
	return v
}

// leading is the view while this copy leads; nil when it stands by.
func (s *Server) leading() *View {
	v := s.view.Load()
	if v == nil || v.over() {
		return nil
	}
	return v
}

// Serve accepts connections until ctx ends, then ends every watch and returns nil. Without TLS the listener must be on a
// loopback address. A server serves once.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	creds := insecure.NewCredentials()
	switch {
	case s.options.Server != nil && s.access != nil:
		creds = credentials.NewTLS(s.options.Server)
	case s.options.Server != nil || s.access != nil || !process.IsLoopback(listener.Addr().String()):
		err := errors.New("without certificates and access rules only a loopback address may be served")
		return errors.Join(fmt.Errorf("serving gRPC on %s: %w", listener.Addr(), err), listener.Close())
	}
	return s.serve(ctx, listener, creds)
}

func (s *Server) serve(ctx context.Context, listener net.Listener, creds credentials.TransportCredentials) error {
	defer s.forward.close()
	keep := stream.ServerKeepalive()
	keep.MaxConnectionIdle, keep.MaxConnectionAge = maxIdle, maxAge
	server := stream.NewGRPC(creds, s.options.Log, grpc.KeepaliveParams(keep), grpc.ChainUnaryInterceptor(s.guardUnary), grpc.ChainStreamInterceptor(s.guardStream))
	observationv1.RegisterObservationServiceServer(server, s)
	reflection.Register(server)
	checks := health.NewServer()
	checks.SetServingStatus(observationv1.ObservationService_ServiceDesc.ServiceName, healthv1.HealthCheckResponse_SERVING)
	healthv1.RegisterHealthServer(server, checks)
	return stream.ServeGRPC(ctx, server, listener, func() {
		checks.Shutdown() // says NOT_SERVING for every service
		close(s.draining)
	})
}
