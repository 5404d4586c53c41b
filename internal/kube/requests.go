package kube

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
)

// Instrument counts the requests of every client that is made of config, under the names that client-go's adapters use.
// It is done to a config once.
func Instrument(config *rest.Config, r prometheus.Registerer) {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rest_client_requests_total",
		Help: "Requests to the API server, by method and status code; <error>: none came back."}, []string{"method", "code"})
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rest_client_request_duration_seconds",
		Help:    "Time until the API server answered, by method; the wait for --kube-api-qps is not in it.",
		Buckets: prometheus.ExponentialBuckets(0.002, 2, 13)}, []string{"method"})
	r.MustRegister(requests, duration)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			began := time.Now()
			response, err := next.RoundTrip(request)
			code := "<error>"
			if err == nil {
				code = strconv.Itoa(response.StatusCode)
			}
			requests.WithLabelValues(request.Method, code).Inc()
			duration.WithLabelValues(request.Method).Observe(time.Since(began).Seconds())
			return response, err
		})
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
