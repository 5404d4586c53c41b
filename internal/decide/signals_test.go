package decide

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

func TestSignalsSayHowFarTheyCanBeUsed(t *testing.T) {
	busy := func(s *setting) { s.queue("server", 30) }
	tests := []struct {
		name   string
		change func(*setting)
		state  observe.SignalState
		reason string // of the role when it differs from the algorithm's
		ready  bool   // MetricsReady
	}{
		{"work is fresh", busy, observe.Fresh, "", true},
		{"no work at all is idle", func(*setting) {}, observe.Idle, "", true},
		{"no running request but tokens is not idle", func(s *setting) {
			s.observe("server", func(o *observe.RoleObservation) { o.Generation = observe.Known(1) })
		}, observe.Fresh, "", true},
		{"a decode role has no prompt rate, and needs none to be idle", func(s *setting) {
			s.Target.Roles[0].Kind = observe.Decode
			s.observe("server", func(o *observe.RoleObservation) { o.Prompt, o.RawPrompt = observe.Value{}, observe.Value{} })
		}, observe.Idle, "", true},
		{"any other role is not known to be idle without one", func(s *setting) {
			s.observe("server", func(o *observe.RoleObservation) { o.Prompt = observe.Value{} })
		}, observe.Fresh, "", true},
		{"incomplete coverage is never idle", func(s *setting) {
			s.observe("server", func(o *observe.RoleObservation) { o.Coverage.Answered = 2 })
		}, observe.Fresh, "", false},
		{"requests need no rates", func(s *setting) {
			busy(s)
			s.observe("server", func(o *observe.RoleObservation) {
				o.Coverage.Rated, o.Prompt, o.Generation = 0, observe.Value{}, observe.Value{}
			})
		}, observe.Fresh, "", true},
		{"rates need two scrapes", func(s *setting) {
			busy(s)
			s.Scaler.Spec.Algorithm.Proportional.Metric = workerv1.MetricTotalTokensPerSecond
			s.observe("server", func(o *observe.RoleObservation) {
				o.Coverage.Rated, o.Prompt, o.Generation = 0, observe.Value{}, observe.Value{}
			})
		}, observe.Missing, ReasonWaitingForMetrics, false},
		{"no observation is missing", func(s *setting) { delete(s.Observations, "server") }, observe.Missing, ReasonWaitingForMetrics, false},
		{"history is no observation", func(s *setting) {
			s.observe("server", func(o *observe.RoleObservation) { o.Replayed = true })
		}, observe.Missing, ReasonWaitingForMetrics, false},
		{"no answer is missing", func(s *setting) {
			s.observe("server", func(o *observe.RoleObservation) { o.Coverage.Answered = 0 })
		}, observe.Missing, ReasonWaitingForMetrics, false},
		{"two intervals and two seconds are not too old", func(s *setting) {
			busy(s)
			s.observe("server", func(o *observe.RoleObservation) { o.Age = 32 * time.Second })
		}, observe.Fresh, "", true},
		{"anything older is stale", func(s *setting) {
			s.observe("server", func(o *observe.RoleObservation) { o.Age = 32*time.Second + 1 })
		}, observe.Stale, ReasonWaitingForMetrics, false},
		{"no ready replica is missing", func(s *setting) {
			for o := range 3 {
				s.instance("server", o, func(i *target.Instance) { i.Ready = false })
			}
		}, observe.Missing, ReasonNoReadyReplicas, false},
		{"no ready replica observed is missing", func(s *setting) {
			s.observe("server", func(o *observe.RoleObservation) { o.Coverage = observe.Coverage{} })
		}, observe.Missing, ReasonNoReadyReplicas, false},
		{"a command of its own is missing", func(s *setting) { s.Target.Roles[0].Unmanaged = true }, observe.Missing, ReasonWaitingForMetrics, false},
		{"elastic expert parallelism is missing", func(s *setting) { s.Target.Roles[0].ElasticEP = true }, observe.Missing, ReasonWaitingForMetrics, false},
		{"a reading that is not a number is missing", func(s *setting) { s.queue("server", math.NaN()) }, observe.Missing, ReasonWaitingForMetrics, false},
		{"an infinite reading is missing", func(s *setting) { s.queue("server", math.Inf(1)) }, observe.Missing, ReasonWaitingForMetrics, false},
		{"a negative reading is missing", func(s *setting) { s.queue("server", -1) }, observe.Missing, ReasonWaitingForMetrics, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := with(server(3)).remembering("server", 1)
			tt.change(s)
			d := Plan(s.Input)
			got := d.State.role("server")
			require.Equal(t, tt.state, got.Signal)
			condition := findCondition(d.State.Conditions, workerv1.ConditionMetricsReady)
			require.Equal(t, tt.ready, condition.Reason == workerv1.ReasonObserved, condition.Message)
			if tt.reason != "" {
				require.Equal(t, tt.reason, got.Reason)
				require.Equal(t, int32(3), got.Raw, "what is not known is held")
				require.Nil(t, d.Commit)
				require.Contains(t, condition.Message, "role server: ")
			}
		})
	}
}

func TestHugeReadingsSaturateInsteadOfOverflowing(t *testing.T) {
	s := with(server(2)).queue("server", math.MaxFloat64)
	s.observe("server", func(o *observe.RoleObservation) { o.Waiting = observe.Known(math.MaxFloat64) })
	d := Plan(s.Input)
	require.Equal(t, int32(math.MaxInt32), d.State.role("server").Raw)
	require.Equal(t, map[string]int32{"server": 6}, vectorOf(d))
}
