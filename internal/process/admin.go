package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// adminServer serves probes, metrics and the log level.
type adminServer struct {
	listener net.Listener
	server   *http.Server
}

func newAdmin(ctx context.Context, o *options, p *Process, level zap.AtomicLevel) (*adminServer, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.adminAddress)
	if err != nil {
		return nil, fmt.Errorf("listening on --admin-address: %w", err)
	}
	p.Log.Info("serving admin endpoints", zap.Stringer("address", l.Addr()))
	mux := http.NewServeMux()
	mux.Handle("GET /livez", p.Health.handler(&p.Health.live))
	mux.Handle("GET /healthz", p.Health.handler(&p.Health.live))
	mux.Handle("GET /readyz", p.Health.handler(&p.Health.ready))
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.Registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second}))
	mux.Handle("GET /loglevel", level)
	mux.Handle("PUT /loglevel", loopbackOnly(level))
	if o.profiling {
		mux.Handle("GET /debug/pprof/", loopbackOnly(http.HandlerFunc(pprof.Index)))
		mux.Handle("GET /debug/pprof/profile", loopbackOnly(http.HandlerFunc(pprof.Profile)))
	}
	return &adminServer{listener: l, server: &http.Server{
		Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: 90 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: zap.NewStdLog(p.Log.Named("admin")),
	}}, nil
}

// serve answers until ctx ends.
func (a *adminServer) serve(ctx context.Context) error {
	stopped := context.AfterFunc(ctx, func() { _ = a.server.Close() })
	defer stopped()
	if err := a.server.Serve(a.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving admin endpoints: %w", err)
	}
	return nil
}

// loopbackOnly refuses peers on other machines: changing a process takes the right to port-forward to it.
func loopbackOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !IsLoopback(r.RemoteAddr) {
			http.Error(w, "only for loopback peers: use kubectl port-forward", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func newRegistry(program string) *prometheus.Registry {
	r := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "mds_build_info", Help: "Always 1; the labels say which program and build this is.",
		ConstLabels: prometheus.Labels{"program": program, "version": Version()},
	})
	info.Set(1)
	r.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}
