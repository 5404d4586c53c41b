package main

import (
	"context"
	"fmt"
	"net/http"
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
	kill  func() error // at once, without a word
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
	d.kill = func() error {
		err := cmd.Process.Kill()
		_ = d.stop() // which tells that it ended
		return err
	}
	return d, nil
}

// ready waits until a copy that stands by knows the cluster.
func (d *decider) ready(ctx context.Context) error {
	for began := time.Now(); time.Since(began) < patience; {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.admin+"/readyz", http.NoBody)
		if err != nil {
			return fmt.Errorf("asking a decider whether it is ready: %w", err)
		}
		if answer, err := http.DefaultClient.Do(request); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		if err := measure.Pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("waiting for a decider that stands by: not ready within %s", patience)
}

const (
	// pollEvery is how often a decider that takes over is looked at: its metrics cost it a quarter of a second, in a large fleet.
	pollEvery = 5 * time.Second
	// leaderPoll is how often one that stands by is: it has few.
	leaderPoll = 50 * time.Millisecond
)

// await reads the decider's metrics until they are as wanted; while it does not answer yet, it is waited for.
func (d *decider) await(ctx context.Context, what string, limit, every time.Duration, wanted func(measure.Metrics) bool) error {
	deadline := time.Now().Add(limit)
	for {
		m, err := measure.Read(ctx, d.admin)
		if err == nil && wanted(m) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waiting until %s: not within %s (last answer: %w)", what, limit, err)
		}
		if err := measure.Pause(ctx, every); err != nil {
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

// scrapeEvery is how often the decider's metrics are read while it is measured, as somebody who monitors it would.
const scrapeEvery = 5 * time.Second

// measure reads the decider's own metrics again and again until done.
func (d *decider) measure(ctx context.Context, limit time.Duration, done func() bool) (*cost, error) {
	first, err := measure.Read(ctx, d.admin)
	if err != nil {
		return nil, err
	}
	began, last, c := time.Now(), first, &cost{writes: map[string]float64{}}
	read := began
	for over := false; !over; {
		if err := measure.Pause(ctx, time.Second); err != nil {
			return nil, err
		}
		over = time.Since(began) >= limit || done()
		if !over && time.Since(read) < scrapeEvery {
			continue
		}
		read = time.Now()
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
