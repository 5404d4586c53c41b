package sampler

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"gpustack.ai/model-deployment-scaler/internal/certs"
	"gpustack.ai/model-deployment-scaler/internal/process"
	"gpustack.ai/model-deployment-scaler/internal/scrape"
	"gpustack.ai/model-deployment-scaler/internal/stream"
)

// gcPercent is how much the heap may grow between collections, in percent. Most of it lives as long as its Pods, and little is
// allocated per scrape: collecting often costs next to nothing and saves a third of the memory.
const gcPercent = 25

// Run is the sampler: it serves until ctx ends, tells the decider that it drains, and stops scraping last.
func Run(ctx context.Context, p *process.Process, o *Options) error {
	process.SetGCPercent(gcPercent)
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.GRPCAddress)
	if err != nil {
		return fmt.Errorf("listening for the decider (--grpc-address): %w", err)
	}
	return serve(ctx, p, o, listener)
}

func serve(ctx context.Context, p *process.Process, o *Options, listener net.Listener) error {
	g, ctx := errgroup.WithContext(ctx)
	config, err := o.serverTLS(ctx, g, p)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	engines, err := o.newScraper(ctx, g, p.Log)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	f := newFleet(life, engines, o, newMetrics(p.Registry), p.Log)
	server := stream.NewServer(stream.ServerOptions{
		Shard: o.ShardName, Node: o.NodeName, Version: p.Version, CapacityScrapesPerSecond: o.CapacityPerSecond,
		Sessions: certs.AllowNames(o.DeciderIdentity), Observers: o.observers(), Log: p.Log, Registerer: p.Registry,
	}, f)
	f.publish = server.Publish
	p.Health.AddLive("passes", f.check)
	p.Log.Info("serving", zap.Stringer("address", listener.Addr()), zap.String("shard", o.ShardName), zap.Bool("tls", config != nil))
	g.Go(func() error {
		defer f.close() // after the session was told, so that it misses no pass
		return server.Serve(ctx, listener, config)
	})
	return g.Wait()
}

// serverTLS is nil on insecure loopback.
func (o *Options) serverTLS(ctx context.Context, g *errgroup.Group, p *process.Process) (*tls.Config, error) {
	if o.InsecureLoopback {
		p.Log.Warn("serving without TLS on a loopback address, as asked for by --insecure-loopback")
		return nil, nil
	}
	source, err := certs.Await(o.TLS, p.Log) // the decider's first leader may still have to make them (D53)
	if err != nil {
		return nil, err
	}
	p.Registry.MustRegister(source.Expiry("mds_sampler_certificate_expiry_timestamp_seconds"))
	p.Health.AddReady("certificate", source.Check)
	g.Go(func() error { return source.Run(ctx) })
	// Who may do what is for the methods to say: any certificate of the authority may connect.
	return source.Server(func(*x509.Certificate) error { return nil }), nil
}

func (o *Options) newScraper(ctx context.Context, g *errgroup.Group, log *zap.Logger) (*scrape.Scraper, error) {
	certificates, err := certs.Load(o.EngineTLS, log)
	if err != nil {
		return nil, fmt.Errorf("loading --engine-ca-file, --engine-cert-file and --engine-key-file: %w", err)
	}
	g.Go(func() error { return certificates.Run(ctx) })
	if o.EngineInsecureSkipVerify {
		log.Warn("certificates of engines are not verified, as asked for by --engine-tls-insecure-skip-verify")
	}
	return scrape.New(scrape.Options{
		MaxBytes: o.MaxScrapeBytes.Value(), DataParallel: scrape.DataParallel(o.DataParallel), Certificates: certificates,
		InsecureSkipVerify: o.EngineInsecureSkipVerify, BearerTokenFile: o.EngineBearerTokenFile,
	}), nil
}

// observers judges who may watch; nil: nobody.
func (o *Options) observers() func(*x509.Certificate) error {
	if len(o.ObserverIdentities) == 0 {
		return nil
	}
	return certs.AllowNames(o.ObserverIdentities...)
}
