package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"gpustack.ai/model-deployment-scaler/dev/controlplane"
	"gpustack.ai/model-deployment-scaler/dev/measure"
	"gpustack.ai/model-deployment-scaler/internal/kube"
)

// patience with what takes long on a small machine: the first binding of everything.
const patience = 15 * time.Minute

// load makes the fleet, measures and reports.
func load(ctx context.Context, o options) (err error) {
	ctx, stop := context.WithCancel(ctx)
	g, ctx := errgroup.WithContext(ctx)
	plane, err := controlplane.Start(ctx)
	if err != nil {
		stop()
		return err
	}
	defer func() {
		stop()
		err = errors.Join(err, g.Wait(), plane.Stop())
	}()
	config, c, err := connect(ctx, plane.Kubeconfig)
	if err != nil {
		return err
	}
	if err := makeFleet(ctx, c, o.scalers); err != nil {
		return err
	}
	d := newDemand()
	samplers, err := startSamplers(ctx, g, o.samplers, d)
	if err != nil {
		return err
	}
	f, err := follow(ctx, g, config, c)
	if err != nil {
		return err
	}
	if err := bindAll(ctx, o, plane.Kubeconfig, samplers, f); err != nil {
		return err
	}
	m, err := measureFleet(ctx, o, plane.Kubeconfig, samplers, d, f)
	if err != nil {
		return err
	}
	return report(os.Stdout, o, m)
}

func connect(ctx context.Context, kubeconfig string) (*rest.Config, *kube.Client, error) {
	if err := controlplane.Apply(ctx, kubeconfig, "manifests/crds", "dev/crds/modeldeployments.yaml"); err != nil {
		return nil, nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 5000, 10000
	c, err := kube.NewClient(ctx, config, "")
	return config, c, err
}

// bindAll lets a first decider bind every target: that is not what is measured. It is given time when it waits for a busy
// API server, on this one machine.
func bindAll(ctx context.Context, o options, kubeconfig string, samplers []string, f *follower) error {
	d, err := startDecider(ctx, o, kubeconfig, samplers, "--lease-duration=60s", "--lease-renew-deadline=50s")
	if err != nil {
		return err
	}
	began := time.Now()
	for f.active() < o.scalers {
		if time.Since(began) > patience {
			return errors.Join(fmt.Errorf("waiting for all scalers to hold their targets: %d of %d do after %s", f.active(), o.scalers, patience), d.stop())
		}
		if err := measure.Pause(ctx, time.Second); err != nil {
			return errors.Join(err, d.stop())
		}
	}
	fmt.Printf("all %d targets were bound within %s\n", o.scalers, time.Since(began).Round(time.Second))
	if err := measure.Pause(ctx, 2*interval); err != nil { // the last reports
		return errors.Join(err, d.stop())
	}
	return d.stop()
}

// measured is everything that the report tells.
type measured struct {
	takeover      time.Duration // from the start of the process until everything was planned
	takeoverRSS   float64       // bytes
	steady, burst *cost
	early         int // decisions before the burst
	bursting      int
	reactions     latencies // of a few, from the step of their demand to the commit
	commits       latencies // from the last observation that showed the burst
	reports       latencies
	standbyRSS    float64 // bytes, of a copy that stands by
	failover      failover
}

// measureFleet measures a second decider, as it is shipped, which begins with the history that the samplers replay.
func measureFleet(ctx context.Context, o options, kubeconfig string, samplers []string, dem *demand, f *follower) (m *measured, err error) {
	began := time.Now()
	d, err := startDecider(ctx, o, kubeconfig, samplers)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.stop()) }() // of whoever leads by then
	m = &measured{}
	err = d.await(ctx, "every scaler was planned", patience, pollEvery, func(now measure.Metrics) bool {
		m.takeoverRSS = max(m.takeoverRSS, now.Gauge("process_resident_memory_bytes"))
		return now.Count(takeover) >= o.scalers
	})
	if err != nil {
		return nil, err
	}
	m.takeover = time.Since(began)
	fmt.Printf("all %d scalers planned %s after the start; warming up for %s, measuring for %s\n", o.scalers, m.takeover.Round(100*time.Millisecond), o.warmUp, o.measure)
	if err := measure.Pause(ctx, o.warmUp); err != nil {
		return nil, err
	}
	if m.steady, err = d.measure(ctx, o.measure, func() bool { return false }); err != nil {
		return nil, err
	}
	decided, _ := f.times()
	m.early = len(decided)
	few, many := chosen(o)
	if err := m.measureReaction(ctx, few, d, dem, f); err != nil {
		return nil, err
	}
	if err := m.measureBurst(ctx, o, many, d, dem, f); err != nil {
		return nil, err
	}
	d, err = m.measureFailover(ctx, o, kubeconfig, samplers, d)
	return m, err
}

// stepping is how many deployments' demand steps up while all else is steady.
const stepping = 20

// chosen are deployments, evenly spread: a few, and as many others as burst.
func chosen(o options) (few, many []deployment) {
	n := o.burst + stepping
	for i := range n {
		name := nameOf(i * o.scalers / n)
		if i*stepping/n != (i+1)*stepping/n {
			few = append(few, name)
		} else {
			many = append(many, name)
		}
	}
	return few, many
}

// measureReaction multiplies the demand of a few and waits until they have grown.
func (m *measured) measureReaction(ctx context.Context, names []deployment, d *decider, dem *demand, f *follower) error {
	fmt.Printf("the demand of %d deployments is %d times what it was\n", len(names), burst)
	began := time.Now()
	dem.burst(names, began)
	_, err := d.measure(ctx, burstLimit, func() bool {
		_, reported := f.times()
		return holdsAll(reported, names)
	})
	decided, _ := f.times()
	stepped := make(map[deployment]time.Time, len(names))
	for _, name := range names {
		stepped[name] = began
	}
	m.reactions = since(stepped, decided, names)
	return err
}

// measureBurst multiplies the demand of some and waits until all of them have grown and said so.
func (m *measured) measureBurst(ctx context.Context, o options, names []deployment, d *decider, dem *demand, f *follower) (err error) {
	fmt.Printf("the demand of %d deployments is %d times what it was\n", o.burst, burst)
	dem.burst(names, time.Now())
	m.bursting = len(names)
	m.burst, err = d.measure(ctx, burstLimit, func() bool {
		_, reported := f.times()
		return holdsAll(reported, names)
	})
	decided, reported := f.times()
	m.commits = since(dem.observed(), decided, names)
	m.reports = since(dem.observed(), reported, names)
	return err
}

// burstLimit is how long a burst is waited for.
const burstLimit = 90 * time.Second

func holdsAll(times map[deployment]time.Time, names []deployment) bool {
	for _, name := range names {
		if _, found := times[name]; !found {
			return false
		}
	}
	return true
}
