package decider

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"gpustack.ai/model-deployment-scaler/internal/certs"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/kube"
	"gpustack.ai/model-deployment-scaler/internal/process"
	"gpustack.ai/model-deployment-scaler/internal/stream"
	"gpustack.ai/model-deployment-scaler/internal/stream/observations"
)

const (
	// workloadPoll is how often the cluster is asked whether it serves Workloads (D60).
	workloadPoll = 30 * time.Second
	// heartbeatLimit is how long no worker may take from the queue of passes before the process counts as stuck.
	heartbeatLimit = time.Minute
	// gcPercent is how much the heap may grow between collections, in percent. Most of it lives as long as its scalers.
	gcPercent = 30
	// takeoverGCPercent is that while a new leader takes over: it makes much garbage then, and what it holds is on its way.
	takeoverGCPercent = 200
	// takeoverTime is how long that is.
	takeoverTime = 20 * time.Second
)

// decider is the process: what leader and standby share.
type decider struct {
	options  *Options
	identity string
	process  *process.Process
	client   *kube.Client
	cache    *kube.Cache
	certs    *certs.Source               // nil: insecure loopback
	refresh  func(context.Context) error // the certificates, for as long as the process lives
	election *kube.Election
	metrics  *metrics

	people       *certs.Source // authorities of users' certificates; nil: none
	listener     net.Listener
	observations *observations.Server

	connected atomic.Bool
	heartbeat atomic.Pointer[process.Heartbeat] // nil: does not lead
}

// Run is the decider from start to end. It returns nil after an orderly end, and an error when the Lease was lost: the
// process then ends, a standby takes over, and the next start is a standby with a clean memory.
func Run(ctx context.Context, p *process.Process, o *Options) error {
	process.SetGCPercent(gcPercent)
	d, err := newDecider(ctx, p, o)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.cache.Run(ctx) })
	if d.certs != nil {
		g.Go(func() error { return d.refresh(ctx) })
	}
	if d.people != nil {
		g.Go(func() error { return d.people.Run(ctx) })
	}
	g.Go(func() error { return d.observations.Serve(ctx, d.listener) })
	g.Go(func() error {
		if !d.cache.WaitForSync(ctx) {
			return nil // ended before it began
		}
		return d.election.Run(ctx, d.lead)
	})
	return g.Wait()
}

func newDecider(ctx context.Context, p *process.Process, o *Options) (_ *decider, err error) {
	d := &decider{options: o, identity: o.identity(), process: p, metrics: newMetrics(p.Registry)}
	p.Health.AddReady("caches", d.synced)
	p.Health.AddLive("planning", d.planning)
	defer func() {
		if err != nil && d.listener != nil {
			_ = d.listener.Close() // the error says why nothing is served
		}
	}()
	if d.client, err = connect(ctx, p, o); err != nil {
		return nil, err
	}
	selector := o.SamplerSelector
	if len(o.SamplerAddresses) > 0 {
		selector = ""
	}
	d.cache, err = kube.NewCache(d.client, kube.CacheOptions{
		Namespace: o.Namespace, Selector: selector, WorkloadPoll: workloadPoll, Log: p.Log,
	})
	if err != nil {
		return nil, err
	}
	if err = d.listen(ctx); err != nil {
		return nil, err
	}
	d.election, err = kube.NewElection(d.client.Leases, kube.ElectionOptions{
		Namespace: o.Namespace, Name: o.LeaseName, Identity: d.identity,
		Duration: o.LeaseDuration, RenewDeadline: o.RenewDeadline, RetryPeriod: o.RetryPeriod,
	})
	if err != nil {
		return nil, err
	}
	if err = d.openCertificates(); err != nil {
		return nil, err
	}
	if d.observations, err = d.newObservations(); err != nil {
		return nil, err
	}
	p.Health.AddLive("election", d.election.Check)
	d.connected.Store(true)
	return d, nil
}

// synced is a ready check: leader and standby alike know the cluster.
func (d *decider) synced() error {
	if !d.connected.Load() {
		return errors.New("the API server has not answered yet")
	}
	return d.cache.Synced()
}

// connect waits for an API server that does not answer, and gives up on one that answers no.
func connect(ctx context.Context, p *process.Process, o *Options) (*kube.Client, error) {
	config, err := kube.LoadConfig(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst, config.UserAgent = o.QPS, o.Burst, "model-deployment-scaler-decider/"+p.Version
	kube.Instrument(config, p.Registry)
	for failures := 0; ; failures++ {
		client, err := kube.NewClient(ctx, config, o.APIVersion)
		if err == nil || !kube.Unreachable(err) {
			return client, err
		}
		p.Log.Warn("API server does not answer; trying again", zap.Error(err))
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(backoff(failures, briefBackoff)):
		}
	}
}

// planning is a live check of the leader; a standby has nothing that could be stuck.
func (d *decider) planning() error {
	if heartbeat := d.heartbeat.Load(); heartbeat != nil {
		return heartbeat.Check()
	}
	return nil
}

// lead is one leadership.
func (d *decider) lead(ctx context.Context, epoch fence.Epoch) error {
	events, err := kube.NewEvents(ctx, d.client)
	if err != nil {
		return err
	}
	process.SetGCPercent(takeoverGCPercent)
	calm := time.AfterFunc(takeoverTime, func() { process.SetGCPercent(gcPercent) })
	defer calm.Stop()
	l := d.newLeader(epoch, events)
	defer l.view.End()
	d.heartbeat.Store(l.heartbeat)
	defer d.heartbeat.Store(nil)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return l.run(ctx) })
	if d.options.selfManaged() {
		g.Go(func() error { return d.keepCertificates(ctx) })
	}
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("leading: %w", err)
	}
	return nil
}

// members are the samplers to keep sessions with: those given, else the ready sampler Pods.
func (d *decider) members() []stream.Member {
	var members []stream.Member
	for _, address := range d.options.SamplerAddresses {
		members = append(members, stream.Member{Name: address, Address: address})
	}
	for _, s := range d.cache.Samplers() {
		members = append(members, stream.Member{Name: s.Name, Address: net.JoinHostPort(s.IP, strconv.Itoa(d.options.SamplerPort))})
	}
	return members
}
