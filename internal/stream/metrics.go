package stream

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Reasons of refusal, values of the label "reason".
const (
	refusedIdentity    = "identity"
	refusedEpoch       = "epoch"
	refusedProtocol    = "protocol"
	refusedRole        = "role"
	refusedObservation = "observation"
	refusedShard       = "shard"
)

// serverMetrics of a sampler.
type serverMetrics struct {
	sessions, watches prometheus.Gauge
	sent, dropped     prometheus.Counter
	refused           *prometheus.CounterVec
}

func newServerMetrics(r prometheus.Registerer) serverMetrics {
	return serverMetrics{
		sessions: gauge(r, "mds_stream_sessions", "Open sessions of deciders: 1 while a leader is connected."),
		watches:  gauge(r, "mds_stream_watches", "Open watches of observers."),
		sent:     counter(r, "mds_stream_observations_sent_total", "Observations sent to sessions and watches."),
		dropped:  counter(r, "mds_stream_observations_dropped_total", "Observations that a newer one of the same role replaced before a slow reader took them."),
		refused:  counters(r, "mds_stream_refused_total", "Calls and roles refused: reason identity, epoch, protocol or role.", "reason"),
	}
}

// poolMetrics of a decider.
type poolMetrics struct {
	members, live, deposed prometheus.Gauge
	received               prometheus.Counter
	ended, refused         *prometheus.CounterVec
}

func newPoolMetrics(r prometheus.Registerer) poolMetrics {
	return poolMetrics{
		members:  gauge(r, "mds_pool_members", "Samplers to keep a session with."),
		live:     gauge(r, "mds_pool_live_shards", "Samplers whose session is up and that are not draining."),
		deposed:  gauge(r, "mds_pool_deposed_members", "Samplers that refuse this leader because a newer one was there."),
		received: counter(r, "mds_pool_observations_received_total", "Observations received, replayed ones included."),
		ended:    counters(r, "mds_pool_sessions_ended_total", "Sessions and attempts that ended, by gRPC code.", "code"),
		refused:  counters(r, "mds_pool_refused_total", "What was refused from samplers or not sent to them: reason observation, shard or role.", "reason"),
	}
}

func gauge(r prometheus.Registerer, name, help string) prometheus.Gauge {
	return register(r, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
}

func counter(r prometheus.Registerer, name, help string) prometheus.Counter {
	return register(r, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
}

func counters(r prometheus.Registerer, name, help, label string) *prometheus.CounterVec {
	return register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label}))
}

// register takes an existing collector over: a process that leads a second time makes a second pool.
func register[C prometheus.Collector](r prometheus.Registerer, c C) C {
	err := r.Register(c)
	if already := (prometheus.AlreadyRegisteredError{}); errors.As(err, &already) {
		return already.ExistingCollector.(C)
	}
	if err != nil {
		panic(err) // a name or label that no registry takes: a mistake in this file
	}
	return c
}
