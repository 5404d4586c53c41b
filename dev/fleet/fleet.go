package fleet

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"

	"gpustack.ai/model-deployment-scaler/internal/sim"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// Resources of others that the fleet plays.
var (
	deployments = schema.GroupVersionResource{Group: target.GroupName, Version: "v1", Resource: target.Resource}
	workloads   = schema.GroupVersionResource{Group: target.WorkloadGroup, Version: target.WorkloadVersion, Resource: target.WorkloadResource}
)

// Fleet is the simulated world and its API server.
type Fleet struct {
	o           Options
	connections *connrotation.Dialer
	kube        kubernetes.Interface
	dynamic     dynamic.Interface
	listeners   *listeners

	mu      sync.Mutex // guards what follows
	world   *sim.World
	traffic map[name]sim.Traffic
	left    map[int]left // instances that are being deleted, by ID

	// Of the goroutine that compares, alone.
	known     map[sim.Key]deployment
	records   map[int]*record
	dying     map[string]time.Time // Pods with a deletion timestamp, by UID: when it was first seen
	addresses *addresses
	trouble   bool
}

// name of a deployment or a Pod.
type name struct{ namespace, name string }

// left says what has left the cluster of an instance.
type left struct{ pods, workload bool }

// New prepares a fleet; nothing happens before Run.
func New(o Options) (*Fleet, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	f := &Fleet{
		o: o, traffic: make(map[name]sim.Traffic), left: make(map[int]left), known: make(map[sim.Key]deployment),
		records: make(map[int]*record), dying: make(map[string]time.Time), addresses: newAddresses(o.PodCIDR),
	}
	f.o.World.Gone = func(id int) (bool, bool) { return f.left[id].pods, f.left[id].workload }
	f.world = sim.NewWorld(f.o.World, time.Now())
	f.listeners = newListeners(f.page)
	return f, f.connect()
}

// connect makes the clients, on connections of their own so that they can be closed.
func (f *Fleet) connect() error {
	config := rest.CopyConfig(f.o.Config)
	config.QPS, config.Burst = 500, 1000
	config.UserAgent = "simulated-fleet"
	if config.Dial == nil {
		config.Dial = (&net.Dialer{Timeout: callTimeout}).DialContext
	}
	f.connections = connrotation.NewDialer(config.Dial)
	config.Dial = f.connections.DialContext
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("connecting the fleet: %w", err)
	}
	if f.kube, err = kubernetes.NewForConfigAndClient(config, client); err != nil {
		return fmt.Errorf("connecting the fleet: %w", err)
	}
	if f.dynamic, err = dynamic.NewForConfigAndClient(config, client); err != nil {
		return fmt.Errorf("connecting the fleet: %w", err)
	}
	return nil
}

// Run plays until the context ends, and returns when every listener is closed.
func (f *Fleet) Run(ctx context.Context) error {
	defer f.connections.CloseAll()
	defer f.listeners.closeAll()
	caches := newCaches(f.kube, f.dynamic)
	defer caches.stop()
	if err := caches.start(ctx); err != nil {
		return err
	}
	f.o.Log.Info("fleet started", zap.Stringer("podCIDR", f.o.PodCIDR))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return every(ctx, min(f.o.Tick, 100*time.Millisecond), func() { f.step() }) })
	group.Go(func() error { return every(ctx, f.o.Tick, func() { f.compare(ctx, caches) }) })
	return group.Wait()
}

// every calls at an interval until the context ends, which is no error.
func every(ctx context.Context, interval time.Duration, call func()) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			call()
		}
	}
}

func (f *Fleet) step() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.world.Step(time.Now())
}

// page renders the page of an instance's engine as of now: rates are of counters between two scrapes, and on a busy machine a
// tick may be late by a good part of that.
func (f *Fleet) page(dst []byte, key sim.Key, id int) ([]byte, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.world.Step(time.Now())
	return f.world.AppendPage(dst, key, id)
}
