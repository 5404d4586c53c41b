package sampler

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// metrics of the sampler itself.
type metrics struct {
	scrapes  *prometheus.CounterVec
	duration prometheus.Histogram
	bytes    prometheus.Histogram
	late     prometheus.Histogram
	roles    prometheus.Gauge
	targets  *prometheus.GaugeVec

	remembered prometheus.Gauge
	forgotten  prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		scrapes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mds_sampler_scrapes_total", Help: "Scrapes by result (Ok, or why not) and engine (empty when none was recognised).",
		}, []string{"result", "engine"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "mds_sampler_scrape_duration_seconds", Help: "Time of one scrape, decoding included.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 3, 5},
		}),
		bytes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "mds_sampler_scrape_body_bytes", Help: "Size of the expositions that were read, decompressed.",
			Buckets: prometheus.ExponentialBuckets(4<<10, 4, 7),
		}),
		late: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "mds_sampler_pass_lateness_seconds", Help: "How long after it was due a pass over a role began.",
			Buckets: []float64{.001, .01, .05, .1, .5, 1, 2, 5, 15},
		}),
		roles: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mds_sampler_roles", Help: "Roles assigned to this sampler.",
		}),
		targets: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mds_sampler_targets", Help: "Pods by state in the latest pass of their role: rated, answered (without a rate), failed, over_cap.",
		}, []string{"state"}),
		remembered: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mds_sampler_replay_observations", Help: "Observations kept for the replay to a new leader.",
		}),
		forgotten: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mds_sampler_replay_forgotten_total", Help: "Observations that were forgotten before their time, the oldest first, because too many were kept.",
		}),
	}
	r.MustRegister(m.scrapes, m.duration, m.bytes, m.late, m.roles, m.targets, m.remembered, m.forgotten)
	return m
}

func (m *metrics) scraped(result observe.UncoveredReason, engine observe.Engine, took time.Duration, bytes int) {
	if result == "" {
		result = "Ok"
		m.bytes.Observe(float64(bytes))
	}
	m.scrapes.WithLabelValues(string(result), string(engine)).Inc()
	m.duration.Observe(took.Seconds())
}

// covered replaces what a role adds to the targets.
func (m *metrics) covered(old, now observe.Coverage) {
	for state, change := range map[string]int{
		"rated":    now.Rated - old.Rated,
		"answered": now.Answered - now.Rated - (old.Answered - old.Rated),
		"failed":   now.Selected - now.Answered - (old.Selected - old.Answered),
		"over_cap": now.Targets - now.Selected - (old.Targets - old.Selected),
	} {
		m.targets.WithLabelValues(state).Add(float64(change))
	}
}
