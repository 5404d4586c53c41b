package decider

import (
	"context"
	"flag"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/kube"
	"gpustack.ai/model-deployment-scaler/internal/process"
)

// leading is a whole leadership, without an election, whose insides the test looks at when it is over.
type leading struct {
	*leader
	decider *decider
	end     func() error
}

func (w *world) lead() *leading {
	w.t.Helper()
	o := NewOptions()
	o.Kubeconfig, o.Namespace, o.InsecureLoopback, o.SamplerAddresses = w.kubeconfig, w.namespace, true, []string{w.sampler.address}
	o.QPS, o.Burst, o.GRPCAddress = 2000, 4000, "127.0.0.1:0"
	p := &process.Process{Log: zap.NewNop(), Registry: prometheus.NewRegistry(), Health: &process.Health{}, Version: "test"}
	ctx, cancel := context.WithCancel(context.Background())
	d, err := newDecider(ctx, p, o)
	require.NoError(w.t, err)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.cache.Run(ctx) })
	require.True(w.t, d.cache.WaitForSync(ctx))
	events, err := kube.NewEvents(ctx, d.client)
	require.NoError(w.t, err)
	epoch := fence.Epoch{LeaseUID: "abcdef01", Transitions: 1}
	l := d.newLeader(epoch, events)
	l.writer = kube.NewWriter(d.client, heldLease{}, epoch)
	g.Go(func() error { return l.run(ctx) })
	end := func() error { cancel(); return g.Wait() }
	w.t.Cleanup(func() { _ = end() })
	return &leading{leader: l, decider: d, end: end}
}

// keepsNothing of what several goroutines share.
func (l *leading) keepsNothing() bool {
	l.memories.mu.Lock()
	kept := len(l.memories.byName)
	l.memories.mu.Unlock()
	l.schedule.mu.Lock()
	kept += len(l.schedule.timings)
	l.schedule.mu.Unlock()
	l.readings.mu.Lock()
	kept += len(l.readings.roles) + len(l.readings.byKey) + len(l.readings.past)
	l.readings.mu.Unlock()
	l.mu.Lock()
	kept += len(l.touched)
	l.mu.Unlock()
	return kept == 0
}

// cycles that TestScalersThatCameAndWentLeaveNothing makes: 2000 take a minute or two.
var cycles = flag.Int("cycles", 200, "scalers that come and go")

func TestScalersThatCameAndWentLeaveNothing(t *testing.T) {
	w := newWorld(t)
	l := w.lead()
	for round := range *cycles / 100 {
		w.comeAndGo(round, 100)
	}
	w.eventually("all is forgotten", l.keepsNothing)
	w.eventually("the sampler has nothing to do", func() bool { return len(w.sampler.assigned()) == 0 })
	l.requireNothingLeft(t)
}

// comeAndGo makes n scalers, every tenth with a target of its own, and deletes all again.
func (w *world) comeAndGo(round, n int) {
	w.t.Helper()
	ctx, none := w.t.Context(), metav1.DeleteOptions{}
	var makers errgroup.Group
	makers.SetLimit(16)
	for i := range n {
		makers.Go(func() error {
			name := fmt.Sprintf("s-%d-%d", round, i)
			if i%10 == 0 {
				if err := w.makeTarget(ctx, name); err != nil {
					return err
				}
			}
			_, err := w.client.Scalers(w.namespace).Create(ctx, scalerOf(name, w.namespace, name, workerv1.ModeShadow), metav1.CreateOptions{})
			return err
		})
	}
	require.NoError(w.t, makers.Wait())
	require.NoError(w.t, w.client.Scalers(w.namespace).DeleteCollection(ctx, none, metav1.ListOptions{}))
	require.NoError(w.t, w.client.Targets(w.namespace).DeleteCollection(ctx, none, metav1.ListOptions{}))
}

// requireNothingLeft ends the leadership and looks at what it alone may touch.
func (l *leading) requireNothingLeft(t *testing.T) {
	t.Helper()
	require.NoError(t, l.end())
	require.True(t, l.keepsNothing())
	require.Empty(t, l.observed)
	require.Empty(t, l.placed.owners)
	require.Empty(t, l.touched)
	require.Empty(t, l.cache.Scalers())
	families, err := l.decider.process.Registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, label := range m.GetLabel() {
				require.NotEqual(t, "scaler", label.GetName(), f.GetName())
			}
		}
	}
}
