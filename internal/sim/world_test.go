package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

var key = Key{"default", "qwen", "u1"}

func role(name string, kind observe.RoleKind, replicas int32) target.Role {
	return target.Role{Name: name, Kind: kind, Replicas: replicas, Size: 1, InstanceType: "a100"}
}

func spec(generation int64, roles ...target.Role) target.Deployment {
	return target.Deployment{Namespace: key.Namespace, Name: key.Name, UID: key.UID, Generation: generation, Engine: "vLLM", Roles: roles}
}

func options() Options {
	return Options{AdmissionDelay: time.Second, ColdStart: 5 * time.Second, RetirementStep: time.Second, DrainLimit: time.Minute}
}

// world tells a story: what happens by when.
type world struct {
	*World
	t *testing.T
}

func newWorld(t *testing.T, o Options) world { return world{NewWorld(o, at), t} }

func (w world) until(d time.Duration) { w.Step(at.Add(d)) }

func (w world) states(want ...string) {
	w.t.Helper()
	got := []string{}
	for _, i := range w.Instances(key) {
		got = append(got, fmt.Sprintf("%s/%d %s", i.Role.Name, i.Ordinal, i.State))
	}
	require.Equal(w.t, want, got)
}

func (w world) retiring(state target.RetirementState, ordinal int) {
	w.t.Helper()
	r := w.Retirement(key)
	require.NotNil(w.t, r)
	require.Equal(w.t, state, r.State)
	require.Equal(w.t, ordinal, r.Ordinal)
}

func TestInstancesComeUp(t *testing.T) {
	w := newWorld(t, options())
	w.Apply(spec(1, role("server", observe.Server, 2)), "m")
	w.states("server/0 Pending", "server/1 Pending")
	w.until(900 * time.Millisecond)
	w.states("server/0 Pending", "server/1 Pending")
	w.until(1100 * time.Millisecond)
	w.states("server/0 Starting", "server/1 Starting")
	w.until(5900 * time.Millisecond)
	w.states("server/0 Starting", "server/1 Starting")
	w.until(6200 * time.Millisecond)
	w.states("server/0 Ready", "server/1 Ready")
	require.NotNil(t, w.Engine(key, w.Instances(key)[0].ID))
}

func TestQuotaLetsInWhatFits(t *testing.T) {
	o := options()
	o.Quota = map[string]int{"a100": 3}
	w := newWorld(t, o)
	big := role("big", observe.Server, 1)
	big.Size = 3
	w.Apply(spec(1, role("server", observe.Server, 2), big), "m")
	w.until(10 * time.Second)
	w.states("server/0 Ready", "server/1 Ready", "big/0 Pending")
	require.Equal(t, map[string]int{"a100": 2}, w.Quota())

	t.Run("what was never admitted vanishes at once", func(t *testing.T) {
		w.Apply(spec(2, role("server", observe.Server, 2)), "m")
		w.states("server/0 Ready", "server/1 Ready")
		require.Nil(t, w.Retirement(key))
	})
	t.Run("the longest waiting comes first", func(t *testing.T) {
		w.Apply(spec(3, role("server", observe.Server, 3)), "m")
		w.until(11 * time.Second)
		w.Apply(spec(4, role("other", observe.Server, 1), role("server", observe.Server, 3)), "m")
		w.until(20 * time.Second)
		w.states("other/0 Pending", "server/0 Ready", "server/1 Ready", "server/2 Ready")
	})
	t.Run("what retires gives its quota back at its end", func(t *testing.T) {
		w.Apply(spec(5, role("other", observe.Server, 1), role("server", observe.Server, 2)), "m")
		w.until(26 * time.Second)
		w.states("other/0 Pending", "server/0 Ready", "server/1 Ready", "server/2 Settling")
		w.until(35 * time.Second)
		w.states("other/0 Ready", "server/0 Ready", "server/1 Ready")
	})
}

func TestQuotaCanBeChanged(t *testing.T) {
	o := options()
	o.Quota = map[string]int{"a100": 1}
	w := newWorld(t, o)
	w.Apply(spec(1, role("server", observe.Server, 3)), "m")
	w.until(10 * time.Second)
	w.states("server/0 Ready", "server/1 Pending", "server/2 Pending")
	w.SetQuota("a100", 2)
	w.until(20 * time.Second)
	w.states("server/0 Ready", "server/1 Ready", "server/2 Pending")
	w.SetQuota("a100", -1)
	w.until(30 * time.Second)
	w.states("server/0 Ready", "server/1 Ready", "server/2 Ready")
	require.Equal(t, map[string]int{"a100": 1}, o.Quota, "the caller's map is left alone")
}

func TestRetirementGoesInOrder(t *testing.T) {
	w := newWorld(t, options())
	w.Apply(spec(1, role("server", observe.Server, 3)), "m")
	w.until(10 * time.Second)
	w.Apply(spec(2, role("server", observe.Server, 1)), "m")
	var seen []string
	for d := 10 * time.Second; d < 30*time.Second; d += 100 * time.Millisecond {
		w.until(d)
		r := w.Retirement(key)
		if r == nil {
			continue
		}
		require.Equal(t, int64(2), r.Generation)
		if entry := fmt.Sprintf("%d %s", r.Ordinal, r.State); len(seen) == 0 || seen[len(seen)-1] != entry {
			seen = append(seen, entry)
		}
	}
	require.Equal(t, []string{
		"2 Admitted", "2 Disqualified", "2 Withdrawing", "2 Draining", "2 Deleting", "2 Settling",
		"1 Admitted", "1 Disqualified", "1 Withdrawing", "1 Draining", "1 Deleting", "1 Settling",
	}, seen)
	w.states("server/0 Ready")
	require.Nil(t, w.Retirement(key))
}

func TestDrainingFinishesRequests(t *testing.T) {
	w := newWorld(t, options())
	w.Apply(spec(1, role("server", observe.Server, 2)), "m")
	w.until(10 * time.Second)
	w.SetTraffic(key, Constant(2, 500, 400))
	w.until(60 * time.Second)
	w.Apply(spec(2, role("server", observe.Server, 1)), "m")
	w.until(64 * time.Second)
	w.retiring(target.RetirementDraining, 1)
	require.False(t, w.Instances(key)[1].Eligible)
	require.Positive(t, w.Instances(key)[1].Running, "its requests go on")
	w.until(90 * time.Second)
	w.states("server/0 Ready")
	totals := w.Totals(key)
	require.Zero(t, totals.Lost)
	require.Equal(t, totals.Arrived, totals.Finished+totals.InFlight)
}

func TestAbortedRetirement(t *testing.T) {
	w := newWorld(t, options())
	w.Apply(spec(1, role("server", observe.Server, 3)), "m")
	w.until(10 * time.Second)
	w.Apply(spec(2, role("server", observe.Server, 1)), "m")
	w.until(12 * time.Second)
	require.True(t, w.Abort(key, "because"))
	w.until(100 * time.Second)
	w.retiring(target.RetirementAborted, 2)
	w.states("server/0 Ready", "server/1 Ready", "server/2 Ready")
	require.False(t, w.Abort(key, "again"), "there is nothing left to abort")

	w.Apply(spec(3, role("server", observe.Server, 3)), "m")
	w.until(101 * time.Second)
	require.Nil(t, w.Retirement(key), "the ordinal is wanted again: it was taken back")
	for _, i := range w.Instances(key) {
		require.True(t, i.Eligible)
	}
}

func TestDrainLimitAborts(t *testing.T) {
	w := newWorld(t, options())
	w.Apply(spec(1, role("server", observe.Server, 2)), "m")
	w.until(10 * time.Second)
	w.SetTraffic(key, Trace{{Prompt: 10, Output: 60 * 200}, {Prompt: 10, Output: 60 * 200}})
	w.until(11 * time.Second)
	w.Apply(spec(2, role("server", observe.Server, 1)), "m")
	w.until(80 * time.Second)
	w.retiring(target.RetirementAborted, 1)
}

func TestDeletionWaitsForTheCluster(t *testing.T) {
	pods, workload := false, false
	o := options()
	o.Gone = func(int) (bool, bool) { return pods, workload }
	w := newWorld(t, o)
	w.Apply(spec(1, role("server", observe.Server, 2)), "m")
	w.until(10 * time.Second)
	w.Apply(spec(2, role("server", observe.Server, 1)), "m")
	w.until(50 * time.Second)
	w.states("server/0 Ready", "server/1 Deleting")
	pods = true
	w.until(100 * time.Second)
	w.states("server/0 Ready", "server/1 Settling")
	workload = true
	w.until(101 * time.Second)
	w.states("server/0 Ready")
}

func TestInstanceThatIsStillLoadingRetiresWithoutServing(t *testing.T) {
	w := newWorld(t, options())
	w.Apply(spec(1, role("server", observe.Server, 1)), "m")
	w.until(10 * time.Second)
	w.Apply(spec(2, role("server", observe.Server, 2)), "m")
	w.until(12 * time.Second)
	w.states("server/0 Ready", "server/1 Starting")
	w.Apply(spec(3, role("server", observe.Server, 1)), "m")
	for d := 12 * time.Second; d < 30*time.Second; d += 100 * time.Millisecond {
		w.until(d)
		for _, i := range w.Instances(key)[1:] {
			require.NotEqual(t, Ready, i.State)
		}
	}
	w.states("server/0 Ready")
}

func TestRestartedEngineCountsFromZero(t *testing.T) {
	w := newWorld(t, options())
	w.Apply(spec(1, role("server", observe.Server, 1)), "m")
	w.SetTraffic(key, Constant(5, 500, 100))
	w.until(60 * time.Second)
	id := w.Instances(key)[0].ID
	require.Positive(t, w.Engine(key, id).Counts().Prompt)
	w.Restart(key, id)
	w.states("server/0 Starting")
	_, answers := w.AppendPage(nil, key, id)
	require.False(t, answers)
	w.until(65 * time.Second)
	w.until(65100 * time.Millisecond)
	require.Equal(t, 1, w.Instances(key)[0].Restarts)
	require.Less(t, w.Engine(key, id).Counts().Arrived, uint64(40), "it takes what had to wait")
	require.Positive(t, w.Totals(key).Lost)
}

func TestEvictedInstanceWaitsBehindTheOthers(t *testing.T) {
	o := options()
	o.Quota = map[string]int{"a100": 2}
	w := newWorld(t, o)
	w.Apply(spec(1, role("server", observe.Server, 3)), "m")
	w.SetTraffic(key, Constant(5, 500, 100))
	w.until(20 * time.Second)
	w.states("server/0 Ready", "server/1 Ready", "server/2 Pending")
	evicted := w.Instances(key)[0]
	w.Evict(key, evicted.ID)
	w.states("server/0 Pending", "server/1 Ready", "server/2 Pending")
	require.Positive(t, w.Totals(key).Lost)
	w.until(30 * time.Second)
	w.states("server/0 Pending", "server/1 Ready", "server/2 Ready")
	w.Evict(key, evicted.ID)
	require.Equal(t, 1, w.Instances(key)[0].Evictions, "it had no quota to lose")
	w.SetQuota("a100", 3)
	w.until(40 * time.Second)
	w.states("server/0 Ready", "server/1 Ready", "server/2 Ready")
	require.Equal(t, evicted.ID, w.Instances(key)[0].ID)

	t.Run("and one that is no longer wanted is gone", func(t *testing.T) {
		w.SetTraffic(key, nil)
		w.Apply(spec(2, role("server", observe.Server, 1)), "m")
		w.until(40200 * time.Millisecond)
		w.retiring(target.RetirementAdmitted, 2)
		w.Evict(key, w.Instances(key)[2].ID)
		w.states("server/0 Ready", "server/1 Ready", "server/2 Ready") // it is retiring already
		w.Evict(key, w.Instances(key)[1].ID)
		w.states("server/0 Ready", "server/2 Ready")
	})
}

func TestLostInstanceStartsAnew(t *testing.T) {
	w := newWorld(t, options())
	w.Apply(spec(1, role("server", observe.Server, 2)), "m")
	w.until(10 * time.Second)
	before := w.Instances(key)[0].ID
	w.Lose(key, before)
	w.states("server/0 Pending", "server/1 Ready")
	require.NotEqual(t, before, w.Instances(key)[0].ID)
	w.until(20 * time.Second)
	w.states("server/0 Ready", "server/1 Ready")
}

func TestPairHandsRequestsOver(t *testing.T) {
	for _, row := range []struct {
		name  string
		roles []target.Role
	}{
		{"prefill and decode", []target.Role{role("p", observe.Prefill, 1), role("d", observe.Decode, 2)}},
		{"encode, prefill and decode", []target.Role{role("d", observe.Decode, 1), role("e", observe.Encode, 1), role("p", observe.Prefill, 1)}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, options())
			w.Apply(spec(1, row.roles...), "m")
			w.SetTraffic(key, Constant(2, 500, 100))
			w.until(120 * time.Second)
			for _, i := range w.Instances(key) {
				require.Greater(t, w.Engine(key, i.ID).Counts().Finished, uint64(90), i.Role.Name)
			}
			totals := w.Totals(key)
			require.Equal(t, totals.Arrived, totals.Finished+totals.InFlight)
			require.Greater(t, totals.Finished, uint64(200))
		})
	}
}

func TestLoadIsSpread(t *testing.T) {
	w := newWorld(t, options())
	w.Apply(spec(1, role("server", observe.Server, 4)), "m")
	w.SetTraffic(key, Constant(20, 500, 200))
	w.until(120 * time.Second)
	for _, i := range w.Instances(key) {
		require.InDelta(t, 600, w.Engine(key, i.ID).Counts().Arrived, 60)
	}
}

func TestRemovedDeploymentLeavesNothing(t *testing.T) {
	w := newWorld(t, options())
	w.Apply(spec(1, role("server", observe.Server, 1)), "m")
	w.until(10 * time.Second)
	w.Remove(key)
	require.Empty(t, w.Keys())
	require.Empty(t, w.Quota())
	require.Zero(t, w.Totals(key))
	w.until(20 * time.Second)
}

func TestTheWorldKeepsItsRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := options()
		o.Quota = map[string]int{"a100": rapid.IntRange(1, 8).Draw(t, "quota")}
		o.DrainLimit = 20 * time.Second
		w := NewWorld(o, at)
		generation, ids := int64(0), map[int]string{}
		for second := 0; second < 120; second += rapid.IntRange(1, 10).Draw(t, "pause") {
			w.Step(at.Add(time.Duration(second) * time.Second))
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0, 1:
				generation++
				w.Apply(spec(generation, role("p", observe.Prefill, int32(rapid.IntRange(1, 5).Draw(t, "p"))),
					role("d", observe.Decode, int32(rapid.IntRange(1, 5).Draw(t, "d")))), "m")
			case 2:
				w.SetTraffic(key, Constant(rapid.Float64Range(0, 10).Draw(t, "rate"), 400, 50))
			case 3:
				w.Abort(key, "chance")
			case 4:
				if list := w.Instances(key); len(list) > 0 {
					w.Lose(key, list[rapid.IntRange(0, len(list)-1).Draw(t, "victim")].ID)
				}
			case 5:
				if list := w.Instances(key); len(list) > 0 {
					w.Evict(key, list[rapid.IntRange(0, len(list)-1).Draw(t, "evicted")].ID)
				}
			}
			require.LessOrEqual(t, w.Quota()["a100"], o.Quota["a100"])
			totals := w.Totals(key)
			require.Equal(t, totals.Arrived, totals.Finished+totals.Lost+totals.InFlight)
			places := map[string]bool{}
			for _, i := range w.Instances(key) {
				place := fmt.Sprintf("%s/%d", i.Role.Name, i.Ordinal)
				require.False(t, places[place], "an ordinal lives once")
				places[place] = true
				require.Contains(t, []string{"", place}, ids[i.ID], "an ID is never used twice")
				ids[i.ID] = place
			}
		}
	})
}

func BenchmarkTwoHundredInstances(b *testing.B) {
	w := NewWorld(Options{}, at)
	w.Apply(spec(1, role("server", observe.Server, 200)), "m")
	w.SetTraffic(key, Constant(400, 700, 200))
	now := at.Add(time.Minute)
	w.Step(now)
	for b.Loop() { // one second of the world
		now = now.Add(time.Second)
		w.Step(now)
	}
}
