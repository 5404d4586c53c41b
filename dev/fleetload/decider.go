package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"gpustack.ai/model-deployment-scaler/dev/measure"
)

// decider is the process under test.
type decider struct {
	admin string
	stop  func() error
}

func startDecider(ctx context.Context, o options, kubeconfig string, samplers []string, more ...string) (*decider, error) {
	admin, err := measure.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	g, ctx := errgroup.WithContext(ctx)
	d := &decider{admin: admin, stop: func() error { cancel(); return g.Wait() }}
	flags := append([]string{"--kubeconfig=" + kubeconfig, "--namespace=" + systemNamespace, "--insecure-loopback",
		"--sampler-addresses=" + strings.Join(samplers, ","), "--admin-address=" + admin, "--grpc-address=127.0.0.1:0", "--log-level=warn"}, more...)
	cmd := exec.CommandContext(ctx, o.decider, flags...)
	cmd.Env = append(cmd.Environ(), fmt.Sprintf("GOMAXPROCS=%d", o.cores))
	if err := measure.Start(ctx, g, cmd); err != nil {
		cancel()
		return nil, err
	}
	return d, nil
}

// await reads the decider's metrics until they are as wanted; while it does not answer yet, it is waited for.
func (d *decider) await(ctx context.Context, what string, limit time.Duration, wanted func(measure.Metrics) bool) error {
	deadline := time.Now().Add(limit)
	for {
		m, err := measure.Read(ctx, d.admin)
		if err == nil && wanted(m) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waiting until %s: not within %s (last answer: %w)", what, limit, err)
		}
		if err := measure.Pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// cost of the decider over a while.
type cost struct {
	seconds, cores float64
	maxRSS, heap   float64 // bytes; heap at the end
	passes, failed float64
	p50, p99       float64 // upper bounds of the time of a pass, in seconds
	waited         float64 // upper bound of the wait for a worker at p99, in seconds
	writes         map[string]float64
}

// measure reads the decider's own metrics every second until done.
func (d *decider) measure(ctx context.Context, limit time.Duration, done func() bool) (*cost, error) {
	first, err := measure.Read(ctx, d.admin)
	if err != nil {
		return nil, err
	}
	began, last, c := time.Now(), first, &cost{writes: map[string]float64{}}
	for time.Since(began) < limit && !done() {
		if err := measure.Pause(ctx, time.Second); err != nil {
			return nil, err
		}
		if last, err = measure.Read(ctx, d.admin); err != nil {
			return nil, err
		}
		c.maxRSS = max(c.maxRSS, last.Gauge("process_resident_memory_bytes"))
	}
	c.seconds = time.Since(began).Seconds()
	c.heap = last.Gauge("go_memstats_heap_inuse_bytes")
	c.cores = (last.Counter("process_cpu_seconds_total") - first.Counter("process_cpu_seconds_total")) / c.seconds
	results := last.By(passesTotal, "result")
	before := first.By(passesTotal, "result")
	c.passes, c.failed = results["ok"]-before["ok"], results["failed"]-before["failed"]
	const pass = "mds_decider_pass_duration_seconds"
	c.p50, c.p99 = measure.Quantile(first, last, pass, 0.5), measure.Quantile(first, last, pass, 0.99)
	c.waited = measure.Quantile(first, last, "workqueue_queue_duration_seconds", 0.99)
	old := first.By("rest_client_requests_total", "method")
	for method, n := range last.By("rest_client_requests_total", "method") {
		c.writes[method] = n - old[method]
	}
	return c, nil
}

// changed is how many writes there were to targets, scalers and events: PUT is the Lease's alone.
func (c *cost) changed() float64 { return c.writes["PATCH"] + c.writes["POST"] + c.writes["DELETE"] }

const passesTotal = "mds_decider_passes_total"
