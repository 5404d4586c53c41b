package decide

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

func TestReplicasIsACeilingThatForgivesNoise(t *testing.T) {
	tests := []struct {
		name string
		x    float64
		want int32
	}{
		{"a whole number stays", 3, 3},
		{"noise above a whole number does not count", 3 + 1e-10, 3},
		{"anything more than noise counts", 3 + 1e-8, 4},
		{"nothing is one replica", 0, 1},
		{"a negative number is one replica", -5, 1},
		{"not a number is one replica", math.NaN(), 1},
		{"infinity saturates", math.Inf(1), math.MaxInt32},
		{"what does not fit saturates", 1e18, math.MaxInt32},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, replicas(tt.x)) })
	}
}

func TestProportionalReadsTheMetricThatItIsTold(t *testing.T) {
	tests := []struct {
		metric workerv1.ProportionalMetric
		want   int32
	}{
		{workerv1.MetricQueueDepth, 9},
		{workerv1.MetricRunningRequests, 6},
		{workerv1.MetricWaitingRequests, 3},
		{workerv1.MetricPromptTokensPerSecond, 11},
		{workerv1.MetricGenerationTokensPerSecond, 5},
		{workerv1.MetricTotalTokensPerSecond, 16},
	}
	for _, tt := range tests {
		t.Run(string(tt.metric), func(t *testing.T) {
			s := with(server(2)).observe("server", func(o *observe.RoleObservation) {
				o.Running, o.Waiting = observe.Known(60), observe.Known(30)
				o.Prompt, o.RawPrompt, o.Generation = observe.Known(110), observe.Known(9999), observe.Known(50)
			})
			s.Scaler.Spec.Algorithm.Proportional.Metric = tt.metric
			require.Equal(t, tt.want, Plan(s.Input).State.role("server").Raw)
		})
	}
}

// Prompt counters say nothing of a decode engine's work, and its observations carry none (D9).
func TestTheTokensOfADecodeRoleAreThoseItGenerates(t *testing.T) {
	for name, prompt := range map[string]observe.Value{"no prompt rate": {}, "a prompt rate all the same": observe.Known(900)} {
		t.Run(name, func(t *testing.T) {
			s := with(named("server", observe.Decode, 2)).observe("server", func(o *observe.RoleObservation) {
				o.Running, o.Prompt, o.Generation = observe.Known(3), prompt, observe.Known(50)
			})
			s.Scaler.Spec.Algorithm.Proportional.Metric = workerv1.MetricTotalTokensPerSecond
			d := Plan(s.Input)
			require.Equal(t, int32(5), d.State.role("server").Raw)
			require.Equal(t, observe.Fresh, d.State.role("server").Signal)
		})
	}
}

func TestADecodeRoleIsNotSizedByPromptTokensAndSaysSo(t *testing.T) {
	s := with(named("server", observe.Decode, 2)).observe("server", func(o *observe.RoleObservation) { o.Prompt = observe.Known(900) })
	s.Scaler.Spec.Algorithm.Proportional.Metric = workerv1.MetricPromptTokensPerSecond
	d := Plan(s.Input)
	require.Equal(t, int32(2), d.State.role("server").Raw)
	require.Equal(t, observe.Missing, d.State.role("server").Signal)
	require.Contains(t, findCondition(d.State.Conditions, workerv1.ConditionMetricsReady).Message, "prompt tokens say nothing of a Decode role")
}

func TestProportionalHoldsInsideItsTolerance(t *testing.T) {
	tests := []struct {
		name      string
		tolerance string
		replicas  int32
		ready     int
		running   float64
		raw       int32
		reason    string
	}{
		{"exactly on target", "", 4, 4, 40, 4, ReasonWithinTolerance},
		{"on the upper edge", "", 4, 4, 44, 4, ReasonWithinTolerance},
		{"just over it", "", 4, 4, 44.01, 5, ReasonProportional},
		{"on the lower edge", "", 4, 4, 36, 4, ReasonWithinTolerance},
		{"just under it", "", 4, 4, 35.9, 4, ReasonProportional},
		{"far under it", "", 4, 4, 11, 2, ReasonProportional},
		{"a tolerance of its own", "0.5", 4, 4, 60, 4, ReasonWithinTolerance},
		{"holding keeps the desired count, not the ready one", "", 6, 2, 20, 6, ReasonWithinTolerance},
		{"the load is that of the ready replicas", "", 6, 2, 60, 6, ReasonProportional},
		{"no load at all is one replica", "", 4, 4, 0, 1, ReasonProportional},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := with(server(tt.replicas)).queue("server", tt.running)
			s.observe("server", func(o *observe.RoleObservation) {
				o.Coverage = observe.Coverage{ReadyReplicas: tt.ready, Targets: tt.ready, Answered: tt.ready, Rated: tt.ready}
			})
			if tt.tolerance != "" {
				q := resource.MustParse(tt.tolerance)
				s.Scaler.Spec.Algorithm.Proportional.Tolerance = &q
			}
			d := Plan(s.Input)
			require.Equal(t, tt.raw, d.State.role("server").Raw)
			require.Equal(t, tt.reason, d.Trace["server"][0].Rule)
		})
	}
}

func TestQueueWithoutDemandIsNotIdle(t *testing.T) {
	tests := []struct {
		name    string
		metric  workerv1.ProportionalMetric
		waiting float64
		reason  string
	}{
		{"nothing runs and nothing waits", workerv1.MetricRunningRequests, 0, ReasonProportional},
		{"nothing runs but something waits", workerv1.MetricRunningRequests, 1, ReasonWaitingWithoutDemand},
		{"no tokens move but something waits", workerv1.MetricTotalTokensPerSecond, 1, ReasonWaitingWithoutDemand},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := with(server(4)).remembering("server", 1)
			s.Scaler.Spec.Algorithm.Proportional.Metric = tt.metric
			s.observe("server", func(o *observe.RoleObservation) { o.Waiting = observe.Known(tt.waiting) })
			d := Plan(s.Input)
			require.Equal(t, int32(1), d.State.role("server").Raw)
			require.Equal(t, tt.reason, d.Trace["server"][0].Rule)
			if tt.waiting > 0 {
				require.Nil(t, d.Commit)
				require.Equal(t, ReasonWaitingWithoutDemand, d.State.role("server").Reason)
				h := d.State.role("server").History
				require.Equal(t, int32(4), h[len(h)-1].Replicas, "a hold goes into the history as the current count")
			}
		})
	}
}

func TestAlgorithmWithoutParametersHoldsAndSaysSo(t *testing.T) {
	for _, kind := range []workerv1.AlgorithmType{workerv1.AlgorithmProportional, workerv1.AlgorithmTokenThroughput, workerv1.AlgorithmPredictive, "Oracle"} {
		t.Run(string(kind), func(t *testing.T) {
			s := with(server(4)).queue("server", 900).remembering("server", 1)
			s.Scaler.Spec.Algorithm = workerv1.Algorithm{Type: kind}
			d := Plan(s.Input)
			require.Nil(t, d.Commit)
			requireCount(t, 4, d, "server")
			require.Equal(t, "False/WaitingForMetrics", conditionOf(d.State, workerv1.ConditionMetricsReady))
			require.Contains(t, findCondition(d.State.Conditions, workerv1.ConditionMetricsReady).Message, "no parameters")
		})
	}
}
