package decider

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/stream"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// snapshotOf is the target that the observations of these tests are of.
func snapshotOf(roles ...string) *target.Snapshot {
	s := &target.Snapshot{Deployment: target.Deployment{Namespace: "ns", Name: "md", UID: "1"}}
	for _, role := range roles {
		s.Roles = append(s.Roles, target.Role{Name: role})
	}
	return s
}

func observation(role string, sequence uint64, age time.Duration) observe.RoleObservation {
	return observe.RoleObservation{Key: keyOf(snapshotOf(), role), Sequence: sequence, Age: age, Running: observe.Known(float64(sequence))}
}

var testTarget = types.NamespacedName{Namespace: "ns", Name: "md"}

func assignments(roles ...string) (list []observe.Assignment) {
	for _, role := range roles {
		list = append(list, observe.Assignment{Key: keyOf(snapshotOf(), role)})
	}
	return list
}

func wantedReadings(roles ...string) *readings {
	r := newReadings()
	r.retain(testTarget, assignments(roles...))
	return r
}

func TestOnlyNewsOfWantedRolesIsTaken(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		shard  string
		next   observe.RoleObservation
		after  time.Duration
		isNews bool
	}{
		"a later pass of the same shard":                          {"a", observation("r", 6, 0), 15 * second, true},
		"the same pass once more, by a new session":               {"a", observation("r", 5, 15*second), 15 * second, false},
		"the same pass once more, with less measured age":         {"a", observation("r", 5, 14*second), 15 * second, false},
		"an earlier pass of the previous owner that arrives late": {"b", observation("r", 99, 30*second), 15 * second, false},
		"a later pass of another shard, whose count is lower":     {"b", observation("r", 1, second), 15 * second, true},
		"a role that nobody wants":                                {"a", observation("other", 6, 0), 15 * second, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := wantedReadings("r")
			require.True(t, r.put("a", observation("r", 5, 0), now))
			require.Equal(t, c.isNews, r.put(c.shard, c.next, now.Add(c.after)))
		})
	}
}

func TestHistoryNeverBecomesTheCurrentReading(t *testing.T) {
	r := wantedReadings("r")
	old := observation("r", 1, time.Minute)
	old.Replayed = true
	require.False(t, r.put("a", old, time.Now()))
	require.Empty(t, r.of(snapshotOf("r"), time.Now()))
}

// replayOf is the history of one role, as it comes from a session.
func replayOf(t *testing.T, list ...observe.RoleObservation) stream.Replay {
	t.Helper()
	r, err := stream.DecodeReplay(stream.EncodeReplay(list))
	require.NoError(t, err)
	return r
}

func TestHistoryIsKeptOldestFirstUntilItIsUsed(t *testing.T) {
	r, now := wantedReadings("r", "other"), time.Now()
	r.putPast("a", replayOf(t, observation("r", 1, 20*second)), now)
	r.putPast("b", replayOf(t, observation("r", 7, 22*second), observation("r", 8, 7*second)), now.Add(second))
	r.putPast("a", replayOf(t, observation("unwanted", 1, 20*second)), now)
	past, done := r.pastOf(snapshotOf("r", "other", "unwanted"), now.Add(5*second))
	require.Len(t, past, 1)
	var ages []time.Duration
	for _, o := range past["r"] {
		require.Equal(t, keyOf(snapshotOf(), "r"), o.Key)
		ages = append(ages, o.Age)
	}
	require.Equal(t, []time.Duration{26 * second, 25 * second, 11 * second}, ages)
	done()
	r.dropPast(snapshotOf("r"))
	past, done = r.pastOf(snapshotOf("r"), now)
	require.Empty(t, past)
	done()

	for range 2 * maxPast {
		r.putPast("a", replayOf(t, observation("r", 1, second), observation("r", 2, 0)), now)
	}
	past, done = r.pastOf(snapshotOf("r"), now)
	require.Len(t, past["r"], maxPast)
	done()
	r.retain(testTarget, nil)
	require.Empty(t, r.past)
}

func TestAReadingAgesOnTheMonotonicClock(t *testing.T) {
	r, now := wantedReadings("r"), time.Now()
	require.Equal(t, time.Duration(-1), r.age(keyOf(snapshotOf(), "r"), now))
	r.put("a", observation("r", 1, 2*second), now)
	require.Equal(t, 5*second, r.of(snapshotOf("r", "unseen"), now.Add(3*second))["r"].Age)
	require.Equal(t, 5*second, r.age(keyOf(snapshotOf(), "r"), now.Add(3*second)))
}

func TestWhatIsNoLongerWantedIsForgotten(t *testing.T) {
	r, now := wantedReadings("r", "s"), time.Now()
	r.put("a", observation("r", 1, 0), now)
	r.put("a", observation("s", 1, 0), now)
	r.retain(types.NamespacedName{Namespace: "ns", Name: "other"}, []observe.Assignment{{Key: observe.RoleKey{Deployment: "other"}}})
	require.Len(t, r.byKey, 3)
	r.retain(testTarget, assignments("s", "t"))
	require.Contains(t, r.of(snapshotOf("r", "s", "t"), now), "s")
	require.Len(t, r.of(snapshotOf("r", "s", "t"), now), 1)
	require.Len(t, r.byKey, 3)
	r.retain(testTarget, nil)
	require.Len(t, r.byKey, 1)
	require.Len(t, r.roles, 1)
}

// spanOf is the history of a role over a span, every 30 seconds.
func spanOf(t *testing.T, role string, span time.Duration) stream.Replay {
	var list []observe.RoleObservation
	for age := span; age > 0; age -= 30 * second {
		o := observation(role, uint64(span-age), age)
		o.Interval = 15 * second
		list = append(list, o)
	}
	return replayOf(t, list...)
}

func TestThePastIsWholeWhenTheSamplerOfEachRoleToldAllOfIt(t *testing.T) {
	on, now := testTarget, time.Now()
	r := wantedReadings("r", "other")
	require.False(t, r.whole(on), "nothing is told")
	r.putPast("a", spanOf(t, "r", replaySpan), now)
	r.put("b", observation("other", 1, 0), now)
	r.putPast("b", spanOf(t, "other", replaySpan), now)
	require.False(t, r.whole(on), "who observes a role now is not known")
	r.put("a", observation("r", 1, 0), now)
	require.True(t, r.whole(on))
	r.put("b", observation("r", 1, 0), now.Add(second))
	require.False(t, r.whole(on), "a role has moved: its sampler has what came since")
	r.putPast("b", spanOf(t, "r", time.Minute), now)
	require.False(t, r.whole(on), "and not what came before")
	r.putPast("b", spanOf(t, "r", replaySpan), now)
	require.True(t, r.whole(on))
	r.dropPast(snapshotOf("r", "other"))
	require.False(t, r.whole(on))
	require.False(t, newReadings().whole(on), "nobody wants anything")
}
