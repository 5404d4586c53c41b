package observations

import "github.com/prometheus/client_golang/prometheus"

// Reasons of refusal, values of the label "reason".
const (
	refusedAnonymous   = "anonymous"   // no credentials
	refusedCertificate = "certificate" // not of an authority that is trusted for it, expired, or without a name
	refusedToken       = "token"       // invalid, expired, or for another audience
	refusedForbidden   = "forbidden"   // known, without the right
	refusedReview      = "review"      // the API server did not answer the question
	refusedLimit       = "limit"       // too many watches
	refusedSlow        = "slow"        // a watch whose reader does not read
)

// metrics of one copy.
type metrics struct {
	watches                  prometheus.Gauge
	sent, dropped, forwarded prometheus.Counter
	refused                  *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) metrics {
	m := metrics{
		watches: prometheus.NewGauge(prometheus.GaugeOpts{Name: "mds_observations_watches",
			Help: "Open watches, forwarded ones included."}),
		sent: prometheus.NewCounter(prometheus.CounterOpts{Name: "mds_observations_sent_total",
			Help: "Messages sent to watches."}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "mds_observations_dropped_total",
			Help: "Changes that a newer one of the same role replaced before a slow reader took them."}),
		forwarded: prometheus.NewCounter(prometheus.CounterOpts{Name: "mds_observations_forwarded_total",
			Help: "Calls forwarded to the leader while standing by."}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mds_observations_refused_total",
			Help: "Calls refused or ended: reason anonymous, certificate, token, forbidden, review (the API server did not answer), limit or slow."}, []string{"reason"}),
	}
	r.MustRegister(m.watches, m.sent, m.dropped, m.forwarded, m.refused)
	return m
}
