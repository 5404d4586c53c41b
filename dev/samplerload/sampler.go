package main

import (
	"context"
	"os/exec"
	"time"

	"golang.org/x/sync/errgroup"

	"gpustack.ai/model-deployment-scaler/dev/measure"
)

// sampler is the process under test.
type sampler struct{ grpc, admin string }

func startSampler(ctx context.Context, g *errgroup.Group, o options) (*sampler, error) {
	grpc, err := measure.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	admin, err := measure.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	flags := append([]string{"--insecure-loopback", "--shard-name=sampler", "--grpc-address=" + grpc, "--admin-address=" + admin, "--log-level=warn"}, o.more...)
	cmd := exec.CommandContext(ctx, o.sampler, flags...)
	return &sampler{grpc: grpc, admin: admin}, measure.Start(ctx, g, cmd)
}

// measured is what the sampler cost and did over a while.
type measured struct {
	cores      float64
	maxRSS     float64 // bytes
	maxHeap    float64 // bytes
	goroutines float64
	scrapes    map[string]float64 // by result
	late       float64            // upper bound of the lateness of 99 % of the passes, in seconds
}

// measure looks at the sampler's own metrics every second.
func (s *sampler) measure(ctx context.Context, d time.Duration) (*measured, error) {
	first, err := measure.Read(ctx, s.admin)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	m := &measured{scrapes: map[string]float64{}}
	last := first
	for time.Since(began) < d {
		if err := measure.Pause(ctx, time.Second); err != nil {
			return nil, err
		}
		if last, err = measure.Read(ctx, s.admin); err != nil {
			return nil, err
		}
		m.maxRSS = max(m.maxRSS, last.Gauge("process_resident_memory_bytes"))
		m.maxHeap = max(m.maxHeap, last.Gauge("go_memstats_heap_inuse_bytes"))
		m.goroutines = max(m.goroutines, last.Gauge("go_goroutines"))
	}
	seconds := time.Since(began).Seconds()
	m.cores = (last.Counter("process_cpu_seconds_total") - first.Counter("process_cpu_seconds_total")) / seconds
	before := first.By("mds_sampler_scrapes_total", "result")
	for result, n := range last.By("mds_sampler_scrapes_total", "result") {
		m.scrapes[result] = (n - before[result]) / seconds
	}
	m.late = measure.Quantile(first, last, "mds_sampler_pass_lateness_seconds", 0.99)
	return m, nil
}
