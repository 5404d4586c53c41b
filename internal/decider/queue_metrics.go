package decider

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
)

// queueMetrics are those of the queue of passes, under the names that every work queue's have.
type queueMetrics struct {
	depth, unfinished, longest *prometheus.GaugeVec
	adds, retries              *prometheus.CounterVec
	waited, worked             *prometheus.HistogramVec
}

func newQueueMetrics(r prometheus.Registerer) *queueMetrics {
	label := []string{"name"}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "workqueue_" + name, Help: help}, label)
	}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "workqueue_" + name, Help: help}, label)
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "workqueue_" + name, Help: help,
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9)}, label)
	}
	m := &queueMetrics{
		depth:      gauge("depth", "Scalers that wait for a worker."),
		unfinished: gauge("unfinished_work_seconds", "Time of all passes that run, together."),
		longest:    gauge("longest_running_processor_seconds", "Time of the longest pass that runs."),
		adds:       counter("adds_total", "Scalers that were queued."),
		retries:    counter("retries_total", "Scalers that were queued for later."),
		waited:     histogram("queue_duration_seconds", "Time that scalers waited for a worker."),
		worked:     histogram("work_duration_seconds", "Time of one turn of a worker."),
	}
	r.MustRegister(m.depth, m.unfinished, m.longest, m.adds, m.retries, m.waited, m.worked)
	return m
}

func (m *queueMetrics) NewDepthMetric(name string) workqueue.GaugeMetric {
	return m.depth.WithLabelValues(name)
}

func (m *queueMetrics) NewAddsMetric(name string) workqueue.CounterMetric {
	return m.adds.WithLabelValues(name)
}

func (m *queueMetrics) NewLatencyMetric(name string) workqueue.HistogramMetric {
	return m.waited.WithLabelValues(name)
}

func (m *queueMetrics) NewWorkDurationMetric(name string) workqueue.HistogramMetric {
	return m.worked.WithLabelValues(name)
}

func (m *queueMetrics) NewUnfinishedWorkSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return m.unfinished.WithLabelValues(name)
}

func (m *queueMetrics) NewLongestRunningProcessorSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return m.longest.WithLabelValues(name)
}

func (m *queueMetrics) NewRetriesMetric(name string) workqueue.CounterMetric {
	return m.retries.WithLabelValues(name)
}
