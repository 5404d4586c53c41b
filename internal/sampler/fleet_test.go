package sampler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/scrape"
	"gpustack.ai/model-deployment-scaler/internal/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engines stand in for the network: each Pod answers after its delay, with a counter that grows by 10 a second.
type engines struct {
	began time.Time

	mu      sync.Mutex
	delay   map[string]time.Duration
	broken  map[string]bool
	scrapes map[string][]time.Time
	flying  map[string]int
	most    int // scrapes of one Pod at once
}

func (e *engines) Scrape(ctx context.Context, pod observe.Pod, _ observe.Engine) (scrape.Result, error) {
	e.mu.Lock()
	e.scrapes[pod.Name] = append(e.scrapes[pod.Name], time.Now())
	e.flying[pod.Name]++
	e.most = max(e.most, e.flying[pod.Name])
	delay, broken := e.delay[pod.Name], e.broken[pod.Name]
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.flying[pod.Name]--
	}()
	if !sleep(ctx, delay) {
		return scrape.Result{}, ctx.Err()
	}
	if broken {
		return scrape.Result{}, errors.New("nobody listens")
	}
	s := observe.Sample{Engine: observe.VLLM, Running: observe.Known(1), Waiting: observe.Known(0)}
	s.Counters[observe.GenerationTokens] = []observe.Counter{{Value: 10 * time.Since(e.began).Seconds()}}
	return scrape.Result{Sample: s, Bytes: 1000}, nil
}

func (e *engines) of(pod string) []time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.scrapes[pod]
}

// played is a fleet in a bubble of time.
type played struct {
	*fleet
	engines  *engines
	logs     *observer.ObservedLogs
	registry *prometheus.Registry

	seen sync.Mutex
	out  []observe.RoleObservation
}

func play(t *testing.T, act func(p *played)) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		p := &played{
			engines: &engines{began: time.Now(), delay: map[string]time.Duration{}, broken: map[string]bool{}, scrapes: map[string][]time.Time{}, flying: map[string]int{}},
			logs:    logs, registry: prometheus.NewRegistry(),
		}
		p.fleet = newFleet(t.Context(), p.engines, NewOptions(), newMetrics(p.registry), zap.New(core))
		p.publish = func(o observe.RoleObservation) {
			p.seen.Lock()
			defer p.seen.Unlock()
			p.out = append(p.out, o)
		}
		p.SessionStarted("leader")
		act(p)
		p.close()
	})
}

// after lets time pass and says what was published meanwhile.
func (p *played) after(d time.Duration) []observe.RoleObservation {
	p.seen.Lock()
	p.out = nil
	p.seen.Unlock()
	time.Sleep(d)
	synctest.Wait()
	p.seen.Lock()
	defer p.seen.Unlock()
	return p.out
}

func assignmentOf(role string, pods ...string) observe.Assignment {
	a := observe.Assignment{Key: observe.RoleKey{Namespace: "ns", Deployment: "d", UID: "u", Role: role}, Kind: observe.Server, Interval: 15 * time.Second, ReadyReplicas: len(pods), LastScrapeAge: -1}
	for i, name := range pods {
		a.Pods = append(a.Pods, observe.Pod{Name: name, UID: "uid-" + name, Ordinal: i})
	}
	return a
}

func upsert(assignments ...observe.Assignment) stream.Assign {
	return stream.Assign{Upserts: assignments}
}

func TestEveryPodIsScrapedEveryIntervalAndNeverSooner(t *testing.T) {
	play(t, func(p *played) {
		p.Apply(upsert(assignmentOf("a", "a0", "a1"), assignmentOf("b", "b0")))
		out := p.after(10 * time.Minute)
		require.Len(t, out, 2*40)
		for _, pod := range []string{"a0", "a1", "b0"} {
			times := p.engines.of(pod)
			require.Len(t, times, 40)
			for i := range times[1:] {
				require.Equal(t, 15*time.Second, times[i+1].Sub(times[i]))
			}
		}
		require.Less(t, p.engines.of("a0")[0].Sub(p.engines.of("b0")[0]).Abs(), 1500*time.Millisecond, "roles of one deployment share a phase")
		last := out[len(out)-2:]
		require.Equal(t, observe.Fresh, last[0].State)
		require.InDelta(t, 30, last[0].Generation.Float64+last[1].Generation.Float64, 1e-6)
		require.NoError(t, p.check())
	})
}

func TestASlowPodDelaysNobodyAndIsNeverScrapedTwiceAtOnce(t *testing.T) {
	play(t, func(p *played) {
		p.engines.delay["slow"] = time.Hour
		p.Apply(upsert(assignmentOf("a", "fast", "slow"), assignmentOf("b", "b0")))
		out := p.after(10 * time.Minute)
		require.Len(t, out, 2*40)
		for _, o := range out {
			require.LessOrEqual(t, o.End.Sub(o.Start), 4500*time.Millisecond, "an offset and a timeout")
			if o.Key.Role == "a" {
				require.Equal(t, 1, o.Coverage.Answered)
				require.Equal(t, "slow", o.Coverage.Uncovered[len(o.Coverage.Uncovered)-1].Name)
			}
		}
		require.Len(t, p.engines.of("fast"), 40)
		require.Equal(t, 1, p.engines.most)
	})
}

func TestTwoHundredPodsThatSwallowPacketsDelayNoneOfTheOtherThreeHundred(t *testing.T) {
	play(t, func(p *played) {
		var healthy []string
		var roles []observe.Assignment
		for r := range 10 {
			var pods []string
			for i := range 50 {
				name := fmt.Sprintf("pod-%d-%d", r, i)
				pods = append(pods, name)
				if i < 20 {
					p.engines.delay[name] = time.Hour
				} else {
					healthy = append(healthy, name)
				}
			}
			a := assignmentOf(fmt.Sprint("role-", r), pods...)
			a.Key.Deployment = a.Key.Role // each has its own phase
			roles = append(roles, a)
		}
		p.Apply(upsert(roles...))
		p.after(10 * time.Minute)
		require.Len(t, healthy, 300)
		var lateness []time.Duration
		for _, name := range healthy {
			times := p.engines.of(name)
			require.GreaterOrEqual(t, len(times), 39) // the first comes within the interval, and its own tenth of it
			for i := range times[1:] {
				lateness = append(lateness, times[i+1].Sub(times[i])-15*time.Second)
			}
		}
		slices.Sort(lateness)
		require.Less(t, lateness[len(lateness)*99/100], 2*time.Second)
		require.GreaterOrEqual(t, lateness[0], time.Duration(0))
		require.Equal(t, 1, p.engines.most, "no Pod is scraped twice at once")
		require.NoError(t, p.check())
	})
}

func TestAnInitialScrapeWaitsForWhatThePreviousOwnerDid(t *testing.T) {
	play(t, func(p *played) {
		a := assignmentOf("a", "a0")
		a.LastScrapeAge = 5 * time.Second
		p.Apply(upsert(a))
		require.Empty(t, p.after(10*time.Second-time.Millisecond))
		require.Len(t, p.after(1500*time.Millisecond+time.Millisecond), 1)
	})
}

func TestAnotherAssignmentKeepsTheBaselinesOfUnchangedPods(t *testing.T) {
	play(t, func(p *played) {
		p.Apply(upsert(assignmentOf("a", "a0")))
		p.after(45 * time.Second)
		p.Apply(upsert(assignmentOf("a", "a0", "a1")))
		o := p.after(15 * time.Second)[0]
		require.Equal(t, 2, o.Coverage.Answered)
		require.Equal(t, 1, o.Coverage.Rated)
		require.InDelta(t, 10, o.Generation.Float64, 1e-6)
		require.Equal(t, 2, p.after(15 * time.Second)[0].Coverage.Rated)
		require.Equal(t, 15*time.Second, p.engines.of("a0")[3].Sub(p.engines.of("a0")[2]))
	})
}

func TestAShorterIntervalCountsFromTheLastScrape(t *testing.T) {
	play(t, func(p *played) {
		a := assignmentOf("a", "a0")
		p.Apply(upsert(a))
		p.after(60 * time.Second)
		a.Interval = 5 * time.Second
		p.Apply(upsert(a))
		p.after(60 * time.Second)
		times := p.engines.of("a0")
		for i := range times[1:] {
			require.GreaterOrEqual(t, times[i+1].Sub(times[i]), 4*time.Second)
		}
		require.GreaterOrEqual(t, len(times), 14)
	})
}

func TestRolesEndWhenTheyAreRemovedOrLeftOutOfAWhole(t *testing.T) {
	play(t, func(p *played) {
		p.engines.delay["c0"] = time.Hour
		a, b, c := assignmentOf("a", "a0"), assignmentOf("b", "b0"), assignmentOf("c", "c0")
		p.Apply(upsert(a, b, c))
		p.after(time.Minute)
		require.InDelta(t, 3, testutil.ToFloat64(p.metrics.roles), 0)
		p.Apply(stream.Assign{Removals: []observe.RoleKey{a.Key}})
		for _, o := range p.after(time.Minute) {
			require.NotEqual(t, "a", o.Key.Role)
		}
		p.Apply(stream.Assign{Full: true, Upserts: []observe.Assignment{b}})
		for _, o := range p.after(time.Minute) {
			require.Equal(t, "b", o.Key.Role)
		}
		require.Len(t, p.Latest(), 1)
		require.InDelta(t, 1, testutil.ToFloat64(p.metrics.roles), 0)
		require.InDelta(t, 1, testutil.ToFloat64(p.metrics.targets.WithLabelValues("rated")), 0)
		require.InDelta(t, 0, testutil.ToFloat64(p.metrics.targets.WithLabelValues("failed")), 0)
	})
}

func TestWithoutALeaderTheLastAssignmentIsScrapedOnForTenMinutes(t *testing.T) {
	play(t, func(p *played) {
		p.Apply(upsert(assignmentOf("a", "a0")))
		p.after(time.Minute)
		p.SessionEnded()
		require.Len(t, p.after(10*time.Minute), 40)
		require.Empty(t, p.after(time.Minute))
		require.Empty(t, p.Latest())

		p.SessionStarted("next")
		p.Apply(upsert(assignmentOf("a", "a0")))
		p.after(time.Minute)
		p.SessionEnded()
		p.after(9 * time.Minute)
		p.SessionStarted("another")
		require.NotEmpty(t, p.after(20*time.Minute), "a leader that came in time keeps the roles")
	})
}

func TestReplayIsRoleByRoleOldestFirstWithAges(t *testing.T) {
	play(t, func(p *played) {
		p.Apply(upsert(assignmentOf("a", "a0"), assignmentOf("b", "b0")))
		p.after(time.Hour)
		replay := slices.Collect(p.Replay(30 * time.Minute))
		require.InDelta(t, 240, len(replay), 2)
		roles := []string{replay[0].Key.Role}
		for i := range replay[1:] {
			if next := replay[i+1].Key.Role; next != replay[i].Key.Role {
				roles = append(roles, next)
				continue
			}
			require.GreaterOrEqual(t, replay[i].Age, replay[i+1].Age)
		}
		require.ElementsMatch(t, []string{"a", "b"}, roles)
		require.LessOrEqual(t, len(slices.Collect(p.Replay(time.Minute))), 10)
		latest := p.Latest()
		require.Len(t, latest, 2)
		require.False(t, latest[0].Replayed)
		require.Equal(t, time.Since(latest[0].End), latest[0].Age)
	})
}

func TestARoleThatMovedAwayIsReplayedUntilItsHistoryIsOld(t *testing.T) {
	play(t, func(p *played) {
		p.Apply(upsert(assignmentOf("a", "a0"), assignmentOf("b", "b0")))
		p.after(10 * time.Minute)
		p.Apply(stream.Assign{Removals: []observe.RoleKey{assignmentOf("a").Key}})
		ofA := func() (list []observe.RoleObservation) {
			for o := range p.Replay(replaySpan) {
				if o.Key.Role == "a" {
					list = append(list, o)
				}
			}
			return list
		}
		require.Len(t, ofA(), 40)
		require.Len(t, p.Latest(), 1, "but it is observed no more")
		p.Apply(upsert(assignmentOf("a", "a0")))
		p.after(time.Minute)
		require.Len(t, ofA(), 44, "a role that comes back goes on where it was")
		p.Apply(stream.Assign{Removals: []observe.RoleKey{assignmentOf("a").Key}})
		p.after(replaySpan + 2*time.Minute)
		require.Empty(t, ofA())
		require.Len(t, p.memory.byRole, 1, "and then nothing is kept of it")
		require.InDelta(t, p.memory.kept, testutil.ToFloat64(p.metrics.remembered), 0)
	})
}

func TestPodsOverTheCapAreNotScrapedAndTheChoiceIsStable(t *testing.T) {
	play(t, func(p *played) {
		var pods []string
		for i := range 70 {
			pods = append(pods, fmt.Sprintf("a%02d", i))
		}
		a := assignmentOf("a", pods...)
		a.Pods[0], a.Pods[69] = a.Pods[69], a.Pods[0] // the order of the message does not matter
		p.Apply(upsert(a))
		o := p.after(time.Minute)[0]
		require.Equal(t, 64, o.Coverage.Answered)
		require.Equal(t, 70, o.Coverage.Targets)
		require.False(t, o.Coverage.Complete())
		for i, pod := range pods {
			require.Equal(t, i < 64, len(p.engines.of(pod)) > 0, pod)
		}
		require.InDelta(t, 6, testutil.ToFloat64(p.metrics.targets.WithLabelValues("over_cap")), 0)
	})
}

func TestFailuresAreOneLogLineAMinute(t *testing.T) {
	play(t, func(p *played) {
		p.engines.broken["a1"], p.engines.broken["a2"] = true, true
		p.Apply(upsert(assignmentOf("a", "a0", "a1", "a2")))
		p.after(5 * time.Minute)
		lines := p.logs.FilterMessage("scraping failed").All()
		require.Len(t, lines, 5)
		require.Equal(t, map[string]any{"role": "ns/d/a", "failed": int64(2), "of": int64(3), "lastPod": "a2", "lastReason": "Unreachable", "last": "nobody listens"}, lines[0].ContextMap())
		p.engines.mu.Lock()
		p.engines.broken = nil
		p.engines.mu.Unlock()
		p.after(time.Minute)
		require.Equal(t, 1, p.logs.FilterMessage("scraping recovered").Len())
		require.Equal(t, 5, p.logs.FilterMessage("scraping failed").Len())
		require.Positive(t, testutil.ToFloat64(p.metrics.scrapes.WithLabelValues("Unreachable", "")))
	})
}

func TestRolesOverTheLimitAreRefused(t *testing.T) {
	play(t, func(p *played) {
		var all []observe.Assignment
		for i := range maxRoles + 2 {
			all = append(all, assignmentOf(fmt.Sprint(i)))
		}
		p.Apply(upsert(all...))
		require.InDelta(t, maxRoles, testutil.ToFloat64(p.metrics.roles), 0)
		require.Equal(t, 1, p.logs.FilterMessageSnippet("refused roles").Len())
	})
}

func TestALateLoopIsNotAlive(t *testing.T) {
	play(t, func(p *played) {
		p.Apply(upsert(assignmentOf("a", "a0")))
		p.after(time.Minute)
		require.NoError(t, p.check())
		p.all[assignmentOf("a").Key].cadence.next = time.Now().Add(-time.Minute)
		require.ErrorContains(t, p.check(), "ns/d/a")
	})
}

func TestMetricsAreWellFormed(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMetrics(registry)
	m.scraped("", observe.VLLM, time.Millisecond, 100)
	m.covered(observe.Coverage{}, observe.Coverage{Targets: 3, Selected: 2, Answered: 1})
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}
