package certs

import "github.com/prometheus/client_golang/prometheus"

// Expiry is a metric of that name, which should end in _certificate_expiry_timestamp_seconds.
func (s *Source) Expiry(name string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: name, Help: "When the certificate that is served expires, in seconds since 1970; 0 without one.",
	}, func() float64 {
		if s.NotAfter().IsZero() {
			return 0
		}
		return float64(s.NotAfter().Unix())
	})
}
