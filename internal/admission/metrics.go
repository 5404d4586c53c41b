package admission

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
)

// metrics of the webhook. Labels take few values each: the webhook, which names what it does to which kind, CREATE or UPDATE or
// another operation, and an outcome constant.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mds_webhook_requests_total",
			Help: "Admission requests by webhook, operation and outcome: Allowed, or the reason of the refusal.",
		}, []string{"webhook", "operation", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "mds_webhook_request_duration_seconds",
			Help:    "Time from the headers of an admission request to its answer, live reads included, by webhook, operation and outcome.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"webhook", "operation", "outcome"}),
	}
	r.MustRegister(m.requests, m.duration)
	return m
}

// observe counts a request that was answered; operation is empty when it could not be read.
func (m *metrics) observe(webhook string, operation admissionv1.Operation, outcome string, took time.Duration) {
	if operation != admissionv1.Create && operation != admissionv1.Update {
		operation = "other"
	}
	m.requests.WithLabelValues(webhook, string(operation), outcome).Inc()
	m.duration.WithLabelValues(webhook, string(operation), outcome).Observe(took.Seconds())
}
