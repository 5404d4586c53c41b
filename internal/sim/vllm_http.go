package sim

import "math"

// http writes the families of the web server inside vLLM: requests by handler.
func (w *vllmPage) http(e *Engine) {
	handlers := []string{"/v1/chat/completions", "/v1/completions", "/health", "/v1/models"}
	methods := []string{"POST", "POST", "GET", "GET"}
	requests := []float64{float64(e.counts.Finished), 0, math.Floor(e.now / 10), 1}

	labels := make([]string, len(handlers))
	for n := range handlers {
		labels[n] = `handler="` + handlers[n] + `",method="` + methods[n] + `",status="2xx"`
	}
	w.split("http_requests", "Requests by handler, method and status.", labels, requests)
	w.sizes("http_request_size_bytes", "Length of incoming requests by handler.", handlers, requests, 512)
	w.sizes("http_response_size_bytes", "Length of outgoing responses by handler.", handlers, requests, 2048)
	w.durations(handlers, methods, e)
	fine := newHistogram([]float64{.01, .025, .05, .075, .1, .25, .5, .75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60})
	w.family("http_request_duration_highr_seconds", "histogram", "Latency of all requests with many buckets.")
	refill(fine, e.hist.endToEnd, 1)
	w.buckets("http_request_duration_highr_seconds", "", "", fine)
	w.since("http_request_duration_highr_seconds", "Latency of all requests with many buckets.", "")
}

func (w *vllmPage) sizes(name, help string, handlers []string, requests []float64, each float64) {
	w.family(name, "summary", help)
	for n, handler := range handlers {
		w.sample(name+"_count", `handler="`+handler+`"`, requests[n])
		w.sample(name+"_sum", `handler="`+handler+`"`, requests[n]*each)
	}
	labels := make([]string, len(handlers))
	for n, handler := range handlers {
		labels[n] = `handler="` + handler + `"`
	}
	w.since(name, help, labels...)
}

func (w *vllmPage) durations(handlers, methods []string, e *Engine) {
	const name, help = "http_request_duration_seconds", "Latency of requests by handler."
	w.family(name, "histogram", help)
	var labels []string
	for n, handler := range handlers {
		h := newHistogram([]float64{.1, .5, 1})
		if n == 0 {
			refill(h, e.hist.endToEnd, 1)
		}
		w.buckets(name, `handler="`+handler+`"`, `method="`+methods[n]+`"`, h)
		labels = append(labels, `handler="`+handler+`",method="`+methods[n]+`"`)
	}
	w.since(name, help, labels...)
}
