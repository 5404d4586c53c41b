package e2e

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/dev/runner"
	"gpustack.ai/model-deployment-scaler/internal/sim"
)

var client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// metric sums the series of a program's metric that carry the labels; false while it does not answer.
func (s *stage) metric(pod runner.Pod, name string, labels map[string]string) (sum float64, answered bool) {
	s.t.Helper()
	response, err := client.Get("http://" + pod.IP + ":8080/metrics")
	if err != nil {
		return 0, false
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, false
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	require.NoError(s.t, err)
	for _, m := range families[name].GetMetric() {
		carried := 0
		for _, l := range m.GetLabel() {
			if labels[l.GetName()] == l.GetValue() {
				carried++
			}
		}
		if carried == len(labels) {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum, true
}

// all sums a metric over the Pods of a component that answer.
func (s *stage) all(component, name string, labels map[string]string) (sum float64) {
	s.t.Helper()
	for _, pod := range s.Pods(component) {
		part, _ := s.metric(pod, name, labels)
		sum += part
	}
	return sum
}

// ready are the ready instances of a deployment.
func (s *stage) ready(name string) (n int) {
	for _, i := range s.Fleet.Instances(s.namespace, name) {
		if i.State == sim.Ready {
			n++
		}
	}
	return n
}
