package measure

import (
	"context"
	"math"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

func TestMetricsAreReadAndCountedFromOneTimeToTheNext(t *testing.T) {
	registry := prometheus.NewRegistry()
	level := prometheus.NewGauge(prometheus.GaugeOpts{Name: "level"})
	done := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "done_total"}, []string{"kind", "code"})
	took := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "took_seconds", Buckets: []float64{1, 2, 4}})
	registry.MustRegister(level, done, took)
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer server.Close()
	read := func() Metrics {
		m, err := Read(t.Context(), strings.TrimPrefix(server.URL, "http://")+"/?")
		require.NoError(t, err)
		return m
	}

	level.Set(3)
	took.Observe(3)
	before := read()
	require.Zero(t, Quantile(before, before, "took_seconds", 0.5))
	done.WithLabelValues("a", "200").Add(2)
	done.WithLabelValues("a", "500").Add(1)
	done.WithLabelValues("b", "200").Add(4)
	for range 98 {
		took.Observe(0.5)
	}
	took.Observe(1.5)
	took.Observe(8)
	after := read()
	require.InDelta(t, 3, after.Gauge("level"), 0)
	require.InDelta(t, 7, after.Counter("done_total"), 0)
	require.Equal(t, map[string]float64{"a": 3, "b": 4}, after.By("done_total", "kind"))
	require.Equal(t, 101, after.Count("took_seconds"))
	require.Zero(t, after.Count("nothing"))
	require.InDelta(t, 1, Quantile(before, after, "took_seconds", 0.98), 0)
	require.InDelta(t, 2, Quantile(before, after, "took_seconds", 0.99), 0)
	require.True(t, math.IsInf(Quantile(before, after, "took_seconds", 0.999), 1), "over the last boundary")
	require.InDelta(t, 1, Quantile(nil, after, "took_seconds", 0.5), 0)
	require.Zero(t, after.Gauge("nothing"))
}

func TestAProgramThatEndsByItselfIsAnErrorAndOneThatIsEndedIsNone(t *testing.T) {
	g, ctx := errgroup.WithContext(t.Context())
	require.NoError(t, Start(ctx, g, exec.CommandContext(ctx, "false")))
	require.ErrorContains(t, g.Wait(), "it ended")

	ctx, cancel := context.WithCancel(t.Context())
	g = &errgroup.Group{}
	require.NoError(t, Start(ctx, g, exec.CommandContext(ctx, "sleep", "60")))
	cancel()
	require.NoError(t, g.Wait())
	require.ErrorIs(t, Pause(ctx, time.Minute), context.Canceled)
}
