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

	"gpustack.ai/model-deployment-scaler/internal/admission"
	"gpustack.ai/model-deployment-scaler/internal/certs"
	"gpustack.ai/model-deployment-scaler/internal/kube"
	"gpustack.ai/model-deployment-scaler/internal/process"
)

// drainTimeout is how long requests in flight may take after the signal; under the 10 s that a process has to end.
const drainTimeout = 8 * time.Second

// Run serves until ctx ends, then finishes what is in flight.
func Run(ctx context.Context, p *process.Process, o *Options) error {
	source, err := certs.Load(certs.Files{Cert: o.TLS.Cert, Key: o.TLS.Key}, p.Log)
	if err != nil {
		return err
	}
	config, err := kube.LoadConfig(o.Kubeconfig)
	if err != nil {
		return err
	}
	config.UserAgent = "model-deployment-scaler-webhook/" + p.Version
	cluster, err := newCluster(config, o)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.HTTPSAddress)
	if err != nil {
		return fmt.Errorf("listening on --https-address %s: %w", o.HTTPSAddress, err)
	}
	server := newServer(p.Log, source, admission.New(admission.Options{
		DeciderUser: o.DeciderUsername, Cluster: cluster, Log: p.Log, Registerer: p.Registry,
	}))
	p.Health.AddReady("certificate", source.Check)
	p.Log.Info("serving admission reviews", zap.Stringer("address", listener.Addr()), zap.String("decider", o.DeciderUsername))
	return serve(ctx, p.Health, source, server, listener)
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

// serve ends when ctx does, or with the first failure.
func serve(ctx context.Context, health *process.Health, source *certs.Source, server *http.Server, listener net.Listener) error {
	var draining atomic.Bool
	health.AddReady("serving", func() error {
		if draining.Load() {
			return errors.New("stopping")
		}
		return nil
	})
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return source.Run(ctx) })
	g.Go(func() error {
		if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving admission reviews: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		draining.Store(true)
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		return server.Shutdown(drain)
	})
	return g.Wait()
}
