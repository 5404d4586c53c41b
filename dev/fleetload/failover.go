package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"gpustack.ai/model-deployment-scaler/dev/measure"
)

// measureFailover kills the leader while another copy stands by, and gives that one.
func (m *measured) measureFailover(ctx context.Context, o options, kubeconfig string, samplers []string, leader *decider) (*decider, error) {
	next, err := startDecider(ctx, o, kubeconfig, samplers)
	if err != nil {
		return leader, err
	}
	if err := next.ready(ctx); err != nil {
		return leader, errors.Join(err, next.stop())
	}
	now, err := measure.Read(ctx, next.admin)
	if err != nil {
		return leader, errors.Join(err, next.stop())
	}
	m.standbyRSS = now.Gauge("process_resident_memory_bytes")
	fmt.Println("another copy stands by; killing the leader")
	began := time.Now()
	if err := leader.kill(); err != nil {
		return next, fmt.Errorf("killing the leader: %w", err)
	}
	if err := next.await(ctx, "the next leads", patience, leaderPoll, func(now measure.Metrics) bool { return now.Gauge("mds_decider_leader") == 1 }); err != nil {
		return next, err
	}
	m.failover.led = time.Since(began)
	return next, next.await(ctx, "the next leader has planned", patience, pollEvery, func(all measure.Metrics) bool {
		m.failover.rss = max(m.failover.rss, all.Gauge("process_resident_memory_bytes"))
		m.failover.first = measure.Quantile(now, all, takeover, 1/float64(o.scalers))
		m.failover.p50, m.failover.p99 = measure.Quantile(now, all, takeover, 0.5), measure.Quantile(now, all, takeover, 0.99)
		return all.Count(takeover) >= o.scalers
	})
}

// failover is what came after the SIGKILL of a leader.
type failover struct {
	led             time.Duration // until another copy led
	first, p50, p99 float64       // upper bounds, in seconds, from then until the first scaler, half and 99 % were planned by it
	rss             float64       // bytes at most
}

// within is the time from the SIGKILL to the first plan of a part of the scalers.
func (f failover) within(seconds float64) time.Duration {
	if math.IsInf(seconds, 1) {
		return math.MaxInt64
	}
	return f.led + time.Duration(seconds*float64(time.Second))
}

// takeover counts the first plan of each scaler. Passes would count those again that are planned while others still wait.
const takeover = "mds_decider_takeover_seconds"
