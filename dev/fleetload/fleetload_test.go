package main

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/stream"
)

func assignment(name, role string) observe.Assignment {
	return observe.Assignment{
		Key:      observe.RoleKey{Namespace: "ns", Deployment: name, UID: "uid-" + name, Role: role},
		Interval: interval, ReadyReplicas: 2, Pods: make([]observe.Pod, 2),
	}
}

func TestDemandSwingsByATenthUntilItBursts(t *testing.T) {
	d, now := newDemand(), time.Now()
	key := assignment("a", "prefill").Key
	var least, most float64
	for s := range 200 {
		tokens := d.of(key)(now.Add(time.Duration(s) * time.Second))
		if s == 0 || tokens < least {
			least = tokens
		}
		most = max(most, tokens)
	}
	require.InDelta(t, 1350, least, 5)
	require.InDelta(t, 1650, most, 5)

	before := d.of(key)(now.Add(time.Hour))
	d.burst([]deployment{{"ns", "a"}}, now.Add(time.Minute))
	require.InDelta(t, burst*before, d.of(key)(now.Add(time.Hour)), 0.1)
	require.Less(t, d.of(key)(now), 1700.0, "the past stays as it was")
	require.Less(t, d.of(assignment("b", "prefill").Key)(now.Add(time.Hour)), 1700.0)
}

func TestABurstIsObservedWhenTheLastRoleTellsOfItForTheFirstTime(t *testing.T) {
	d, now := newDemand(), time.Now()
	d.told(assignment("a", "prefill").Key, now, interval)
	require.Empty(t, d.observed())
	d.burst([]deployment{{"ns", "a"}}, now)
	d.told(assignment("a", "prefill").Key, now.Add(time.Second), interval)
	d.told(assignment("a", "decode").Key, now.Add(2*time.Second), interval)
	d.told(assignment("a", "prefill").Key, now.Add(16*time.Second), interval)
	require.Equal(t, map[deployment]time.Time{{"ns", "a"}: now.Add(2 * time.Second)}, d.observed())
}

func TestASamplerObservesWhatItOwnsAndReplaysTheTimeBefore(t *testing.T) {
	s := &sampler{demand: newDemand(), roles: map[observe.RoleKey]*role{}}
	s.server = stream.NewServer(stream.ServerOptions{Registerer: prometheus.NewRegistry()}, s)
	s.Apply(stream.Assign{Full: true, Upserts: []observe.Assignment{assignment("a", "prefill"), assignment("a", "decode")}})
	s.publish(time.Now())
	s.publish(time.Now().Add(interval))
	require.Len(t, s.Latest(), 2)
	require.Equal(t, uint64(1), s.Latest()[0].Sequence, "one an interval")
	replay := slices.Collect(s.Replay(time.Minute))
	require.Len(t, replay, 8)
	require.InDelta(t, time.Minute, replay[0].Age, float64(time.Second))
	s.Apply(stream.Assign{Removals: []observe.RoleKey{assignment("a", "decode").Key}})
	require.Len(t, s.assignments(), 1)
	s.Apply(stream.Assign{Full: true})
	require.Empty(t, s.assignments())
}

func TestTheReportFailsWhatCostsTooMuchWritesForNothingOrStarves(t *testing.T) {
	o := options{scalers: 1000, samplers: 2, burst: 2, cores: 1}
	good := func() *measured {
		return &measured{
			steady:   &cost{seconds: 60, passes: 4000, p99: 0.001, maxRSS: 50 << 20, writes: map[string]float64{"PUT": 60, "GET": 3}},
			burst:    &cost{seconds: 20, writes: map[string]float64{"PATCH": 4}},
			bursting: 2, commits: latencies{time.Second, 2 * time.Second}, reports: latencies{time.Second, 3 * time.Second},
			reactions: slices.Repeat(latencies{10 * time.Second}, stepping), failover: failover{led: 15 * time.Second, first: 1, p50: 2, p99: 15},
		}
	}
	for name, test := range map[string]struct {
		spoil func(*measured)
		want  string
	}{
		"all is well":                   {func(*measured) {}, ""},
		"slow passes":                   {func(m *measured) { m.steady.p99 = 1.024 }, "over 1s"},
		"passes that did not run":       {func(m *measured) { m.steady.passes = 3700 }, "3700 passes ran where 4000"},
		"writes for nothing":            {func(m *measured) { m.steady.writes["PATCH"] = 1 }, "1 writes"},
		"a change for nothing":          {func(m *measured) { m.early = 1 }, "without a reason"},
		"too much memory":               {func(m *measured) { m.steady.maxRSS = 70 << 20 }, "71.7 KB"},
		"a report that came late":       {func(m *measured) { m.reports[1] = 16 * time.Second }, "1 of 2"},
		"one that never came":           {func(m *measured) { m.reports = m.reports[:1] }, "1 of 2"},
		"a step that was answered late": {func(m *measured) { m.reactions[stepping-1] = 17 * time.Second }, "within 17s, not 16s"},
		"a step without an answer":      {func(m *measured) { m.reactions = m.reactions[1:] }, "19 of 20"},
		"a slow fail-over":              {func(m *measured) { m.failover.first = 7 }, "within 22s, not 20s"},
		"scalers left behind by it":     {func(m *measured) { m.failover.p99 = 20 }, "within 20s, not one interval, 15s"},
	} {
		t.Run(name, func(t *testing.T) {
			m := good()
			test.spoil(m)
			var out strings.Builder
			err := report(&out, o, m)
			require.Contains(t, out.String(), "a scaler, all in")
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestLatenciesAreThoseOfWhoWasSeen(t *testing.T) {
	now := time.Now()
	a, b, c := deployment{"ns", "a"}, deployment{"ns", "b"}, deployment{"ns", "c"}
	observed := map[deployment]time.Time{a: now, b: now}
	l := since(observed, map[deployment]time.Time{a: now.Add(3 * time.Second), b: now.Add(time.Second), c: now}, []deployment{a, b, c})
	require.Equal(t, latencies{time.Second, 3 * time.Second}, l)
	require.Equal(t, 3*time.Second, l.at(1))
	require.Equal(t, time.Second, l.at(0))
	require.Zero(t, latencies(nil).at(0.99))
	require.Equal(t, 1, l.within(2*time.Second))
}

func TestThoseThatStepAndThoseThatBurstAreOthers(t *testing.T) {
	for _, scalers := range []int{220, 1000, 5000} {
		few, many := chosen(options{scalers: scalers, burst: 200})
		require.Len(t, few, stepping)
		require.Len(t, many, 200)
		all := map[deployment]bool{}
		for _, name := range append(few, many...) {
			all[name] = true
		}
		require.Len(t, all, 220)
	}
}

func TestABoundBeyondTheLastIsNone(t *testing.T) {
	require.Equal(t, "up to 250µs", upTo(0.00025))
	require.Equal(t, "longer than is counted", upTo(math.Inf(1)))
}
