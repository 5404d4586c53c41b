package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"gpustack.ai/model-deployment-scaler/internal/admission"
	"gpustack.ai/model-deployment-scaler/internal/certs"
	"gpustack.ai/model-deployment-scaler/internal/kube"
	"gpustack.ai/model-deployment-scaler/internal/process"
)

const (
	// gcPercent is how much the heap may grow between collections, in percent. A few megabytes live on, and whoever writes
	// waits for the answer: 20 MB more make it one collection a second instead of six under 500 requests a second.
	gcPercent = 400
	// lingerTime is how long a copy that was told to end serves on while it says that it is not ready: until API servers
	// send nothing new to it.
	lingerTime = 5 * time.Second
	// drainTimeout is how long requests in flight may take then. Both together are under the 10 s that a process has to end.
	drainTimeout = 4500 * time.Millisecond
)

// Run serves until ctx ends, then finishes what is in flight.
func Run(ctx context.Context, p *process.Process, o *Options) error {
	process.SetGCPercent(gcPercent)
	config, err := kube.LoadConfig(o.Kubeconfig)
	if err != nil {
		return err
	}
	config.UserAgent = "model-deployment-scaler-webhook/" + p.Version
	supplied, err := supplyOf(config, o, p.Log)
	if err != nil {
		return err
	}
	cluster, err := newCluster(config, o)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.HTTPSAddress)
	if err != nil {
		return fmt.Errorf("listening on --https-address %s: %w", o.HTTPSAddress, err)
	}
	p.Registry.MustRegister(supplied.source.Expiry("mds_webhook_certificate_expiry_timestamp_seconds"))
	p.Health.AddReady("certificate", supplied.check)
	p.Log.Info("serving admission reviews", zap.Stringer("address", listener.Addr()), zap.String("decider", o.DeciderUsername))
	s := &service{health: p.Health, linger: o.linger, listener: listener}
	s.server = newServer(p.Log, supplied.source, s.leaving(admission.New(admission.Options{
		DeciderUser: o.DeciderUsername, Cluster: cluster, Log: p.Log, Registerer: p.Registry,
	})))
	return s.run(ctx, supplied.keep)
}

// supply of certificates: what is served, who keeps it fresh, and whether it can be used.
type supply struct {
	source *certs.Source
	keep   func(context.Context) error
	check  func() error
}

// supplyOf takes files when there are any named.
func supplyOf(config *rest.Config, o *Options, log *zap.Logger) (*supply, error) {
	if o.selfManaged() {
		k, err := newKeeper(config, o, log)
		if err != nil {
			return nil, err
		}
		return &supply{k.source, k.Run, k.check}, nil
	}
	source, err := certs.Load(o.TLS, log)
	if err != nil {
		return nil, err
	}
	return &supply{source, source.Run, source.Check}, nil
}

func newServer(log *zap.Logger, source *certs.Source, handler http.Handler) *http.Server {
	// What the server says by itself is about broken handshakes and clients that went away.
	quiet, _ := zap.NewStdLogAt(log, zap.DebugLevel)
	return &http.Server{
		Handler:           handler,
		TLSConfig:         source.Server(nil),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          quiet,
	}
}

// service is the HTTPS server and its orderly end.
type service struct {
	health   *process.Health
	server   *http.Server
	listener net.Listener
	linger   time.Duration
	draining atomic.Bool
}

// run ends when ctx does, or with the first failure; keep runs beside it.
func (s *service) run(ctx context.Context, keep func(context.Context) error) error {
	s.health.AddReady("serving", func() error {
		if s.draining.Load() {
			return errors.New("stopping")
		}
		return nil
	})
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return keep(ctx) })
	g.Go(func() error {
		if err := s.server.ServeTLS(s.listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving admission reviews: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		return s.stop(context.WithoutCancel(ctx))
	})
	return g.Wait()
}

// stop says first that this copy is not ready, and closes when nothing new should come.
func (s *service) stop(ctx context.Context) error {
	s.draining.Store(true)
	time.Sleep(s.linger)
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	err := s.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return s.server.Close() // no judgement takes that long: who is left has not asked anything
	}
	return err
}

// leaving asks clients of a copy that ends to close the connection after the answer. A connection that only Shutdown closes
// may just then carry a request, which is lost: API servers keep connections of HTTP/1.1, and do not repeat a POST.
func (s *service) leaving(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
