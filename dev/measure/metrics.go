package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics are all of a process's at one time, by name.
type Metrics map[string]*dto.MetricFamily

// Read asks a process for its metrics; address is its --admin-address.
func Read(ctx context.Context, address string) (Metrics, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("asking for metrics: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking for metrics: %w", err)
	}
	defer func() { _, _ = io.Copy(io.Discard, response.Body); _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New("asking for metrics: status " + response.Status)
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(response.Body)
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	return families, nil
}

// Gauge is the value of a gauge without labels; zero when there is none.
func (m Metrics) Gauge(name string) float64 {
	for _, metric := range m[name].GetMetric() {
		return metric.GetGauge().GetValue()
	}
	return 0
}

// Counter is the sum over the series of a counter.
func (m Metrics) Counter(name string) (sum float64) {
	for _, metric := range m[name].GetMetric() {
		sum += metric.GetCounter().GetValue()
	}
	return sum
}

// By sums a counter by the values of one label.
func (m Metrics) By(name, label string) map[string]float64 {
	sums := make(map[string]float64)
	for _, metric := range m[name].GetMetric() {
		for _, l := range metric.GetLabel() {
			if l.GetName() == label {
				sums[l.GetValue()] += metric.GetCounter().GetValue()
			}
		}
	}
	return sums
}

// Count is how often a histogram has observed something; 0 when there is none.
func (m Metrics) Count(name string) int { return int(histogram(m, name).GetSampleCount()) }

// Quantile is the smallest bucket boundary that covers the fraction q of what a histogram has observed from before to after;
// zero when that is nothing.
func Quantile(before, after Metrics, name string, q float64) float64 {
	now := histogram(after, name)
	old := histogram(before, name)
	total := now.GetSampleCount() - old.GetSampleCount()
	if total == 0 {
		return 0
	}
	for i, b := range now.GetBucket() {
		covered := b.GetCumulativeCount()
		if i < len(old.GetBucket()) {
			covered -= old.GetBucket()[i].GetCumulativeCount()
		}
		if float64(covered) >= float64(total)*q {
			return b.GetUpperBound()
		}
	}
	return 0
}

func histogram(m Metrics, name string) *dto.Histogram {
	for _, metric := range m[name].GetMetric() {
		return metric.GetHistogram()
	}
	return nil
}
