package decider

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/stream"
)

// someRoles makes n roles of two Pods each, two to a deployment.
func someRoles(n int) []observe.Assignment {
	roles := make([]observe.Assignment, n)
	for i := range roles {
		roles[i].Key = observe.RoleKey{Namespace: "ns", Deployment: fmt.Sprintf("md-%d", i/2), UID: fmt.Sprint(i / 2), Role: fmt.Sprint("role-", i%2)}
		roles[i].Interval, roles[i].Pods = 15*time.Second, make([]observe.Pod, 2)
	}
	return roles
}

func someShards(n int) []shard {
	shards := make([]shard, n)
	for i := range shards {
		shards[i] = shard{name: fmt.Sprintf("sampler-%d", i), capacity: 200}
	}
	return shards
}

// drawRoles makes roles of all sizes.
func drawRoles(t *rapid.T, most int) []observe.Assignment {
	roles := someRoles(rapid.IntRange(0, most).Draw(t, "roles"))
	for i := range roles {
		resize(t, &roles[i])
	}
	return roles
}

func resize(t *rapid.T, role *observe.Assignment) {
	role.Pods = make([]observe.Pod, rapid.IntRange(0, 64).Draw(t, "pods"))
	role.Interval = time.Duration(rapid.SampledFrom([]int{5, 15, 60}).Draw(t, "interval")) * time.Second
}

// drawShards makes live shards, of one capacity or of several.
func drawShards(t *rapid.T) []shard {
	shards := someShards(rapid.IntRange(1, 12).Draw(t, "shards"))
	for i := range shards {
		shards[i].capacity = rapid.SampledFrom([]float64{200, 200, 400, 50}).Draw(t, "capacity")
	}
	return shards
}

// requireWhole: the union of the shards is all roles, none of them twice, and every shard is named.
func requireWhole(t require.TestingT, p placement, roles []observe.Assignment, shards []shard) {
	byShard := p.byShard(roles)
	require.Len(t, byShard, len(shards))
	owned := make(map[observe.RoleKey]bool)
	for _, list := range byShard {
		for _, role := range list {
			require.False(t, owned[role.Key], "two owners")
			owned[role.Key] = true
		}
	}
	require.Len(t, owned, len(roles))
}

// loads of the shards, and the limit of each.
func loads(p placement, roles []observe.Assignment) (has, limits map[string]float64) {
	has, limits = make(map[string]float64), make(map[string]float64)
	total, weights := 0.0, 0.0
	for _, role := range roles {
		has[p.owners[role.Key]] += load(role)
		total += load(role)
	}
	for _, s := range p.shards {
		weights += weight(s)
	}
	for _, s := range p.shards {
		limits[s.name] = slack * total * weight(s) / weights
	}
	return has, limits
}

// requireBounded: a live shard is over 1.25 times its share only with roles that fit on no other.
func requireBounded(t require.TestingT, p placement, roles []observe.Assignment) {
	has, limits := loads(p, roles)
	for _, role := range roles {
		owner := p.owners[role.Key]
		if has[owner] <= limits[owner] || !p.shards[owner].lost.IsZero() {
			continue
		}
		for name, other := range p.shards {
			fits := name != owner && other.lost.IsZero() && has[name]+load(role) <= limits[name]
			require.False(t, fits, "%s has too much and %s has room for %s", owner, name, role.Key)
		}
	}
}

func moves(before, after placement) (n int) {
	for key, owner := range after.owners {
		if before.owners[key] != owner {
			n++
		}
	}
	return n
}

func TestEveryRoleHasOneOwnerAndNoShardMoreThanItsShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		roles, shards := drawRoles(t, 200), drawShards(t)
		p := place(placement{}, roles, shards)
		requireWhole(t, p, roles, shards)
		requireBounded(t, p, roles)
	})
}

func TestAPlacementFollowsFromItsArgumentsInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		roles, shards := drawRoles(t, 100), drawShards(t)
		before := place(placement{}, roles, shards[:len(shards)/2+1])
		after := place(before, roles, shards)
		again := place(before, rapid.Permutation(roles).Draw(t, "roles"), rapid.Permutation(shards).Draw(t, "shards"))
		require.Equal(t, after, again)
	})
}

func TestNothingMovesWhenNothingChanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		roles, shards := drawRoles(t, 200), drawShards(t)
		before := place(placement{}, roles, shards)
		require.Equal(t, before, place(before, roles, shards))
	})
}

func TestRolesThatGrowOrComeMoveNoMoreThanTheBoundAsks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		roles, shards := drawRoles(t, 200), drawShards(t)
		before := place(placement{}, roles[:len(roles)/2], shards)
		for i := range roles {
			if rapid.IntRange(0, 9).Draw(t, "grows") == 0 {
				resize(t, &roles[i])
			}
		}
		after := place(before, roles, shards)
		requireWhole(t, after, roles, shards)
		requireBounded(t, after, roles)
		// With the owners of before, who is over the limit? Nobody else loses a role.
		has, limits := loads(placement{owners: before.owners, shards: after.shards}, roles)
		newcomers := make(map[string]float64)
		for _, role := range roles[len(roles)/2:] {
			newcomers[after.owners[role.Key]] += load(role)
		}
		for key, owner := range before.owners {
			if after.owners[key] != owner {
				require.Greater(t, has[owner]+newcomers[owner], limits[owner], "%s left %s, which has room", key, owner)
			}
		}
	})
}

func TestAShardThatComesTakesAboutItsShareAndMovesNoOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		roles, shards := someRoles(1000), someShards(rapid.IntRange(2, 12).Draw(t, "shards"))
		n := rapid.IntRange(0, len(shards)-1).Draw(t, "newcomer")
		without := append(append([]shard(nil), shards[:n]...), shards[n+1:]...)
		before := place(placement{}, roles, without)
		after := place(before, roles, shards)
		requireBounded(t, after, roles)
		taken := 0
		for key, owner := range after.owners {
			if owner != before.owners[key] {
				require.Equal(t, shards[n].name, owner)
				taken++
			}
		}
		fair := len(roles) / len(shards)
		require.InDelta(t, fair, taken, float64(fair)/4+20)
	})
}

func TestAShardThatGoesMovesItsOwnRolesAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		roles, shards := someRoles(400), someShards(rapid.IntRange(2, 12).Draw(t, "shards"))
		before := place(placement{}, roles, shards)
		after := place(before, roles, shards[1:])
		requireWhole(t, after, roles, shards[1:])
		requireBounded(t, after, roles)
		require.Equal(t, len(before.byShard(roles)[shards[0].name]), moves(before, after))
	})
}

func TestAShardThatRestartsWithinTheGraceFindsItsRolesAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		roles, live := drawRoles(t, 200), drawShards(t)
		now := time.Now()
		before := place(placement{}, roles, live)
		missed := time.Duration(rapid.Int64Range(0, int64(grace-1)).Draw(t, "missed"))
		departed := map[string]stream.Departure{live[0].name: {At: now}}

		meanwhile := place(before, roles, waitedFor(before, live[1:], departed, now.Add(missed)))
		require.Equal(t, before.owners, meanwhile.owners)
		requireWhole(t, meanwhile, roles, live)
		back := place(meanwhile, roles, waitedFor(meanwhile, live, nil, now.Add(missed)))
		require.Equal(t, before, back)
	})
}

func TestAShardIsWaitedForTenSecondsAndNotAtAllWhenItSaidGoodbye(t *testing.T) {
	roles, live := someRoles(20), someShards(2)
	before := place(placement{}, roles, live)
	now := time.Now()
	for name, test := range map[string]struct {
		departed map[string]stream.Departure
		after    time.Duration
		waits    bool
	}{
		"it vanished just now":          {map[string]stream.Departure{"sampler-0": {At: now}}, 0, true},
		"it vanished almost 10 s ago":   {map[string]stream.Departure{"sampler-0": {At: now}}, grace - 1, true},
		"it vanished 10 s ago":          {map[string]stream.Departure{"sampler-0": {At: now}}, grace, false},
		"it drains":                     {map[string]stream.Departure{"sampler-0": {At: now, Final: true}}, 0, false},
		"nothing is known of it":        {nil, 0, false},
		"another one vanished just now": {map[string]stream.Departure{"sampler-7": {At: now}}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			shards := waitedFor(before, live[1:], test.departed, now.Add(test.after))
			after := place(before, roles, shards)
			requireWhole(t, after, roles, shards)
			if test.waits {
				require.Equal(t, []shard{live[1], {name: "sampler-0", capacity: 200, lost: now}}, shards)
				require.Equal(t, before.owners, after.owners)
			} else {
				require.Equal(t, live[1:], shards)
			}
		})
	}
}

func TestNoRoleIsGivenToALostShard(t *testing.T) {
	roles, shards := someRoles(40), someShards(4)
	before := place(placement{}, roles[:20], shards)
	shards[2].lost = time.Now()
	after := place(before, roles, shards)
	for _, role := range roles[20:] {
		require.NotEqual(t, shards[2].name, after.owners[role.Key])
	}
	require.Len(t, after.byShard(roles)[shards[2].name], len(before.byShard(roles)[shards[2].name]))
}

func TestANewLeaderLeavesRolesWhereTheyAreObserved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		roles, shards := drawRoles(t, 200), drawShards(t)
		before := place(placement{}, roles, shards[:len(shards)/2+1])
		before = place(before, roles, shards)
		observed := make(map[observe.RoleKey]string)
		named := make(map[string]bool)
		for key, owner := range before.owners {
			observed[key], named[owner] = owner, true
		}
		if len(named) < len(shards) {
			return // an idle shard is a new one to a new leader
		}
		require.Equal(t, before, place(placement{owners: observed}, roles, shards))
	})
}

func TestAShardWinsRolesInProportionToItsCapacity(t *testing.T) {
	shards := []shard{{name: "large", capacity: 300}, {name: "small", capacity: 100}, {name: "broken", capacity: -1}}
	byShard := place(placement{}, someRoles(8000), shards).byShard(someRoles(8000))
	require.InDelta(t, 6000, len(byShard["large"]), 300)
	require.InDelta(t, 2000, len(byShard["small"]), 300)
	require.Less(t, len(byShard["broken"]), 100)
}

func TestARoleThatIsTooLargeForEveryShardIsObservedAllTheSame(t *testing.T) {
	roles, shards := someRoles(3), someShards(3)
	roles[0].Pods = make([]observe.Pod, 1000)
	p := place(placement{}, roles, shards)
	requireWhole(t, p, roles, shards)
	has, _ := loads(p, roles)
	require.InDelta(t, load(roles[0]), has[p.owners[roles[0].Key]], 0, "and what it leaves to the others is theirs")
}

func TestARoleWithoutPodsOrIntervalIsNotFree(t *testing.T) {
	role := observe.Assignment{Interval: 10 * time.Second}
	require.InDelta(t, 1e5, load(role), 0)
	role.Pods = make([]observe.Pod, 30)
	require.InDelta(t, 3e6, load(role), 0, "millionths of a scrape a second")
	role.Interval = 0
	require.False(t, math.IsInf(load(role), 0))
}

func TestWithoutShardsNothingIsAssigned(t *testing.T) {
	p := place(placement{}, someRoles(4), nil)
	require.Empty(t, p.owners)
	require.Empty(t, p.byShard(someRoles(4)))
}

func BenchmarkPlacing(b *testing.B) {
	roles, shards := someRoles(10_000), someShards(20)
	before := place(placement{}, roles, shards)
	b.Run("a steady fleet", func(b *testing.B) {
		for b.Loop() {
			place(before, roles, shards)
		}
	})
	b.Run("one of 20 samplers lost", func(b *testing.B) {
		for b.Loop() {
			place(before, roles, shards[1:])
		}
	})
}
