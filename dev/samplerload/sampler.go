package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"
)

// sampler is the process under test.
type sampler struct{ grpc, admin string }

func startSampler(ctx context.Context, g *errgroup.Group, o options) (*sampler, error) {
	grpc, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	admin, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	flags := append([]string{"--insecure-loopback", "--shard-name=sampler", "--grpc-address=" + grpc, "--admin-address=" + admin, "--log-level=warn"}, o.more...)
	cmd := exec.CommandContext(ctx, o.sampler, flags...)
	return &sampler{grpc: grpc, admin: admin}, start(ctx, g, cmd)
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
	first, err := s.metrics(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	m := &measured{scrapes: map[string]float64{}}
	last := first
	for time.Since(began) < d {
		if err := pause(ctx, time.Second); err != nil {
			return nil, err
		}
		if last, err = s.metrics(ctx); err != nil {
			return nil, err
		}
		m.maxRSS = max(m.maxRSS, gauge(last, "process_resident_memory_bytes"))
		m.maxHeap = max(m.maxHeap, gauge(last, "go_memstats_heap_inuse_bytes"))
		m.goroutines = max(m.goroutines, gauge(last, "go_goroutines"))
	}
	seconds := time.Since(began).Seconds()
	m.cores = (counter(last, "process_cpu_seconds_total") - counter(first, "process_cpu_seconds_total")) / seconds
	for _, x := range last["mds_sampler_scrapes_total"].GetMetric() {
		m.scrapes[resultOf(x)] += x.GetCounter().GetValue() / seconds
	}
	for _, x := range first["mds_sampler_scrapes_total"].GetMetric() {
		m.scrapes[resultOf(x)] -= x.GetCounter().GetValue() / seconds
	}
	m.late = quantile99(first["mds_sampler_pass_lateness_seconds"], last["mds_sampler_pass_lateness_seconds"])
	return m, nil
}

func (s *sampler) metrics(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.admin+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("asking the sampler for its metrics: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking the sampler for its metrics: %w", err)
	}
	defer func() { _, _ = io.Copy(io.Discard, response.Body); _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New("asking the sampler for its metrics: status " + response.Status)
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(response.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the sampler's metrics: %w", err)
	}
	return families, nil
}

func resultOf(m *dto.Metric) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == "result" {
			return l.GetValue()
		}
	}
	return ""
}

func gauge(f map[string]*dto.MetricFamily, name string) float64 {
	for _, m := range f[name].GetMetric() {
		return m.GetGauge().GetValue()
	}
	return 0
}

func counter(f map[string]*dto.MetricFamily, name string) float64 {
	for _, m := range f[name].GetMetric() {
		return m.GetCounter().GetValue()
	}
	return 0
}

// quantile99 is the smallest boundary that covers 99 % of what was observed between two readings of a histogram.
func quantile99(before, after *dto.MetricFamily) float64 {
	old, now := before.GetMetric()[0].GetHistogram(), after.GetMetric()[0].GetHistogram()
	total := now.GetSampleCount() - old.GetSampleCount()
	for i, b := range now.GetBucket() {
		if (b.GetCumulativeCount()-old.GetBucket()[i].GetCumulativeCount())*100 >= total*99 {
			return b.GetUpperBound()
		}
	}
	return 0
}
