package decide

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/windows"
)

// tokens is a role of a kind with capacity 100, whose demand was steady for ten minutes and is so now.
func tokens(kind observe.RoleKind, replicas int32, steady float64) *setting {
	s := with(named("server", kind, replicas)).remembering("server", 1)
	s.Scaler.Spec.Algorithm = workerv1.Algorithm{Type: workerv1.AlgorithmTokenThroughput, TokenThroughput: &workerv1.TokenThroughput{
		ServerTargetTokensPerSecond: quantityOf("100"), PrefillTargetTokensPerSecond: quantityOf("100"), DecodeTargetTokensPerSecond: quantityOf("100")}}
	s.State.Predictors = []Predictor{{Name: "server", History: demanded(steady)}}
	return s.observe("server", func(o *observe.RoleObservation) {
		o.Sequence, o.Running = 99, observe.Known(5)
		o.Prompt, o.Generation = observe.Known(0), observe.Known(steady)
		if kind == observe.Prefill {
			o.Prompt, o.Generation = observe.Known(steady), observe.Known(0)
		}
		o.TTFT, o.ITL = latencyOf(ms(100)), latencyOf(ms(10))
	})
}

func ms(f float64) *float64 { return &f }

// demanded is ten minutes of steady demand until one interval ago.
func demanded(steady float64) (demand windows.Average) {
	for at := noon.Add(-10 * time.Minute); at.Before(noon); at = at.Add(interval) {
		demand = append(demand, windows.Rate{At: at, Span: interval, PerSecond: steady})
	}
	return demand
}

func TestTokensCountByKind(t *testing.T) {
	tests := []struct {
		kind observe.RoleKind
		want int32
	}{{observe.Server, 7}, {observe.Prefill, 4}, {observe.Decode, 3}}
	for _, tt := range tests {
		t.Run(string(tt.kind), func(t *testing.T) {
			s := tokens(tt.kind, 9, 0)
			s.State.Predictors = nil
			s.observe("server", func(o *observe.RoleObservation) { o.Prompt, o.Generation = observe.Known(380), observe.Known(290) })
			require.Equal(t, tt.want, Plan(s.Input).State.role("server").Raw)
		})
	}
}

// A decode role at rest has neither a prompt rate nor latencies: nothing of that may keep its replicas.
func TestADecodeRoleAtRestShrinks(t *testing.T) {
	s := tokens(observe.Decode, 4, 0).observe("server", func(o *observe.RoleObservation) {
		o.Running, o.Prompt, o.RawPrompt = observe.Known(0), observe.Value{}, observe.Value{}
		o.TTFT, o.ITL = observe.Latency{}, observe.Latency{}
	})
	d := Plan(s.Input)
	require.Equal(t, observe.Idle, d.State.role("server").Signal)
	require.Equal(t, map[string]int32{"server": 3}, vectorOf(d))
}

func TestTokensNeedACapacityAndAKnownKind(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*setting)
		says   string
	}{
		{"no capacity", func(s *setting) { s.Scaler.Spec.Algorithm.TokenThroughput.ServerTargetTokensPerSecond = nil }, "no capacity"},
		{"a capacity of nothing", func(s *setting) {
			s.Scaler.Spec.Algorithm.TokenThroughput.ServerTargetTokensPerSecond = quantityOf("0")
		}, "no capacity"},
		{"an unknown kind", func(s *setting) { s.Target.Roles[0].Kind = "" }, "kind is not known"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tokens(observe.Server, 4, 900)
			tt.change(s)
			d := Plan(s.Input)
			require.Nil(t, d.Commit)
			require.Equal(t, observe.Missing, d.State.role("server").Signal)
			require.Contains(t, findCondition(d.State.Conditions, workerv1.ConditionMetricsReady).Message, tt.says)
		})
	}
}

func TestEveryPassIsRememberedOnce(t *testing.T) {
	s := tokens(observe.Server, 4, 400)
	first := Plan(s.Input)
	require.Len(t, first.State.predictor("server").History, 41)
	s.State = first.State
	s.Now = noon.Add(time.Second)
	require.Len(t, Plan(s.Input).State.predictor("server").History, 41, "the same observation again is no new sample")
	s.observe("server", func(o *observe.RoleObservation) { o.Sequence++; o.Prompt = observe.Value{} })
	require.Len(t, Plan(s.Input).State.predictor("server").History, 41, "a pass without a rate leaves a gap")
}

func TestWindowOutlivesAPassWithoutARate(t *testing.T) {
	s := tokens(observe.Server, 4, 700)
	s.observe("server", func(o *observe.RoleObservation) { o.Generation, o.Coverage.Rated = observe.Value{}, 0 })
	d := Plan(s.Input)
	require.Equal(t, int32(7), d.State.role("server").Raw)
	require.Equal(t, "False/WaitingForMetrics", conditionOf(d.State, workerv1.ConditionMetricsReady))
}

func TestPanic(t *testing.T) {
	arrange := func(now float64) *setting {
		s := tokens(observe.Server, 4, 150)
		return s.observe("server", func(o *observe.RoleObservation) { o.Generation = observe.Known(now) })
	}
	// The last minute holds three samples of 150 and one of now: it reaches 2 x 4 x 100 at 2750.
	t.Run("it keeps its name whatever limits it", func(t *testing.T) {
		s := arrange(2750)
		s.Scaler.Spec.Behavior.ScaleUp.StepPolicy = &workerv1.StepPolicy{Type: workerv1.StepPods, Value: 1}
		require.Equal(t, map[string]int32{"server": 5}, vectorOf(Plan(s.Input)))
		require.Equal(t, ReasonPanic, Plan(s.Input).State.role("server").Reason)
	})
	t.Run("just under the threshold is none", func(t *testing.T) {
		d := Plan(arrange(2749.9).Input)
		require.Equal(t, ReasonTokenThroughput, d.State.role("server").Reason)
		require.Zero(t, d.State.role("server").PanicUntil)
	})
	t.Run("an exact hit starts it", func(t *testing.T) {
		d := Plan(arrange(2750).Input)
		got := d.State.role("server")
		require.Equal(t, ReasonPanic, got.Reason)
		require.Equal(t, int32(8), got.Raw, "the short window's count")
		require.Equal(t, noon.Add(3*time.Minute), got.PanicUntil)
	})
	t.Run("it holds until one stable window after the burst", func(t *testing.T) {
		s := arrange(150)
		s.State.Roles[0].PanicUntil = noon.Add(time.Second)
		got := Plan(s.Input).State.role("server")
		require.Equal(t, int32(4), got.Raw, "never under the current count")
		require.Equal(t, ReasonPanic, got.Reason)
		s.State.Roles[0].PanicUntil = noon
		got = Plan(s.Input).State.role("server")
		require.Equal(t, int32(2), got.Raw)
		require.Zero(t, got.PanicUntil)
	})
	t.Run("unmeasurable it does not end sooner", func(t *testing.T) {
		s := arrange(150)
		s.State.Roles[0].PanicUntil = noon.Add(time.Second)
		s.observe("server", func(o *observe.RoleObservation) { o.Coverage.Answered = 0 })
		require.Equal(t, noon.Add(time.Second), Plan(s.Input).State.role("server").PanicUntil)
	})
	t.Run("representation noise does not hide an exact hit", func(t *testing.T) {
		s := tokens(observe.Server, 3, 0.6)
		s.Scaler.Spec.Algorithm.TokenThroughput.ServerTargetTokensPerSecond = quantityOf("0.1")
		require.Equal(t, ReasonPanic, Plan(s.Input).State.role("server").Reason, "2 x 3 x 0.1 is a little over 0.6 in binary")
	})
	t.Run("a threshold of its own", func(t *testing.T) {
		s := arrange(150)
		s.Scaler.Spec.Algorithm.TokenThroughput.PanicThreshold = quantityOf("0.375")
		require.Equal(t, ReasonPanic, Plan(s.Input).State.role("server").Reason, "150 is 0.375 x 4 x 100")
	})
}

func TestLatencyGuard(t *testing.T) {
	tests := []struct {
		name      string
		kind      observe.RoleKind
		ttft, itl *float64
		ready     int
		raw       int32
		reason    string
		shrinks   bool
	}{
		{"both within their targets", observe.Server, ms(500), ms(50), 4, 2, ReasonTokenThroughput, true},
		{"one over its target holds", observe.Server, ms(500.1), ms(50), 4, 2, ReasonLatencyGuardHold, false},
		{"the larger relative breach counts", observe.Server, ms(510), ms(60.1), 4, 5, ReasonLatencyGuardScaleUp, false},
		{"1.2 times the target is still a hold", observe.Server, ms(600), ms(60), 4, 2, ReasonLatencyGuardHold, false},
		{"more asks for one more than the ready replicas", observe.Server, ms(601), ms(10), 4, 5, ReasonLatencyGuardScaleUp, false},
		{"never less than the current count", observe.Server, ms(601), ms(10), 2, 4, ReasonLatencyGuardScaleUp, false},
		{"prefill is judged by its first token alone", observe.Prefill, ms(100), ms(999), 4, 2, ReasonTokenThroughput, true},
		{"decode by its tokens alone", observe.Decode, ms(9999), ms(10), 4, 2, ReasonTokenThroughput, true},
		{"decode over its target holds", observe.Decode, ms(1), ms(51), 4, 2, ReasonLatencyGuardHold, false},
		{"missing latency holds", observe.Server, nil, nil, 4, 2, ReasonLatencyGuardHold, false},
		{"a server with one of two is judged by that", observe.Server, nil, ms(10), 4, 2, ReasonTokenThroughput, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := tokens(tt.kind, 4, 150)
			s.observe("server", func(o *observe.RoleObservation) {
				o.TTFT, o.ITL = latencyOf(tt.ttft), latencyOf(tt.itl)
				o.Coverage = observe.Coverage{ReadyReplicas: tt.ready, Targets: tt.ready, Answered: tt.ready, Rated: tt.ready}
			})
			d := Plan(s.Input)
			require.Equal(t, tt.raw, d.State.role("server").Raw)
			require.Equal(t, tt.reason, d.Trace["server"][0].Rule)
			require.Equal(t, tt.shrinks, vectorOf(d)["server"] == 3)
			require.Equal(t, "True/Observed", conditionOf(d.State, workerv1.ConditionMetricsReady), "latency alone does not decide that")
		})
	}
	t.Run("representation noise makes no breach", func(t *testing.T) {
		s := tokens(observe.Decode, 4, 150)
		s.Scaler.Spec.Algorithm.TokenThroughput.ITLTargetMilliseconds = quantityOf("9")
		s.observe("server", func(o *observe.RoleObservation) { o.ITL = latencyOf(ms(10.8)) })
		require.Equal(t, ReasonLatencyGuardHold, Plan(s.Input).State.role("server").Reason, "exactly 1.2 times, a little more in binary")
	})
	t.Run("an idle role needs no latency", func(t *testing.T) {
		s := tokens(observe.Server, 4, 0)
		s.observe("server", func(o *observe.RoleObservation) {
			o.Running, o.TTFT, o.ITL = observe.Known(0), observe.Latency{}, observe.Latency{}
		})
		require.Equal(t, map[string]int32{"server": 3}, vectorOf(Plan(s.Input)))
	})
	t.Run("missing latency lets growth through", func(t *testing.T) {
		s := tokens(observe.Server, 4, 700)
		s.observe("server", func(o *observe.RoleObservation) { o.TTFT, o.ITL = observe.Latency{}, observe.Latency{} })
		d := Plan(s.Input)
		require.Equal(t, map[string]int32{"server": 7}, vectorOf(d))
		require.Equal(t, ReasonTokenThroughput, d.State.role("server").Reason)
	})
}

func TestPrefillBorrowsTheFirstTokenTimeOfItsDecodeHalf(t *testing.T) {
	arrange := func() *setting {
		s := with(named("prefill", observe.Prefill, 4), named("decode", observe.Decode, 4))
		s.Scaler.Spec.Algorithm = tokens(observe.Server, 1, 0).Scaler.Spec.Algorithm
		s.State.Predictors = []Predictor{{Name: "prefill", History: demanded(150)}, {Name: "decode", History: demanded(350)}}
		s.remembering("prefill", 1).remembering("decode", 4)
		s.observe("prefill", func(o *observe.RoleObservation) {
			o.Sequence, o.Running, o.Prompt = 99, observe.Known(1), observe.Known(150)
		})
		return s.observe("decode", func(o *observe.RoleObservation) {
			o.Sequence, o.Running, o.Generation, o.TTFT, o.ITL = 99, observe.Known(1), observe.Known(350), latencyOf(ms(700)), latencyOf(ms(10))
		})
	}
	d := Plan(arrange().Input)
	require.Equal(t, ReasonLatencyGuardScaleUp, d.State.role("prefill").Reason)
	require.Equal(t, ReasonTokenThroughput, d.State.role("decode").Reason)
	require.InDelta(t, 700, d.State.role("prefill").Observed.TTFT.Milliseconds, 0, "and says so")

	s := arrange().observe("prefill", func(o *observe.RoleObservation) { o.TTFT = latencyOf(ms(10)) })
	require.Equal(t, map[string]int32{"prefill": 3, "decode": 4}, vectorOf(Plan(s.Input)), "its own goes first")

	s = arrange().observe("decode", func(o *observe.RoleObservation) { o.Age = time.Hour })
	require.Equal(t, ReasonLatencyGuardHold, Plan(s.Input).State.role("prefill").Reason, "what is stale is not borrowed")

	s = arrange().observe("prefill", func(o *observe.RoleObservation) { o.Engine = observe.VLLM })
	require.Equal(t, ReasonLatencyGuardHold, Plan(s.Input).State.role("prefill").Reason, "vLLM records it on both halves: a missing one is missing")

	s = arrange().observe("prefill", func(o *observe.RoleObservation) { o.Age = time.Hour })
	require.Zero(t, Plan(s.Input).State.role("prefill").Observed.TTFT, "what is stale is not renewed")
}

func TestUnknownContinuityShrinksNothingForOneStableWindow(t *testing.T) {
	s := tokens(observe.Server, 4, 150)
	s.State.Predictors[0].History = s.State.Predictors[0].History[30:] // two and a half minutes
	d := Plan(s.Input)
	require.Nil(t, d.Commit)
	require.Equal(t, []string{RuleStep, RuleYoungWindows}, rules(d, "server"))
	h := d.State.role("server").History
	require.Equal(t, int32(2), h[len(h)-1].Replicas, "the history says what was recommended all the same")

	s.State.Predictors[0].History = append(demanded(150)[20:21:21], s.State.Predictors[0].History...)
	require.Nil(t, Plan(s.Input).Commit, "a gap of more than a minute starts it anew")
	s.State.Predictors[0].History = demanded(150)[28:]
	require.NotNil(t, Plan(s.Input).Commit)
}

func TestWindowWithAPartialSampleJustifiesGrowthOnly(t *testing.T) {
	s := tokens(observe.Server, 4, 150)
	s.State.Predictors[0].History[38].Partial = true
	require.Nil(t, Plan(s.Input).Commit)
	s.observe("server", func(o *observe.RoleObservation) { o.Generation = observe.Known(6000) })
	require.NotNil(t, Plan(s.Input).Commit)
}

func TestQueueBesideMovingTokensMayShrink(t *testing.T) {
	s := tokens(observe.Server, 4, 150)
	s.observe("server", func(o *observe.RoleObservation) { o.Waiting = observe.Known(3) })
	require.NotNil(t, Plan(s.Input).Commit)
	s.observe("server", func(o *observe.RoleObservation) { o.Generation = observe.Known(0) })
	require.Equal(t, ReasonWaitingWithoutDemand, Plan(s.Input).State.role("server").Reason)
}

func TestPredictorsBelongToTheTokenAlgorithms(t *testing.T) {
	s := tokens(observe.Server, 4, 150)
	s.Scaler.Spec.Algorithm = with(server(4)).Scaler.Spec.Algorithm
	require.Nil(t, Plan(s.Input).State.Predictors)
	s = tokens(observe.Server, 4, 150)
	s.Target.Roles[0].Name = "other"
	s.Target.Instances = nil
	require.Empty(t, Plan(s.Input).State.Predictors, "a role that is gone takes its demand along")
}
