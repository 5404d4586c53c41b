package decider

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

func someRoles(n int) []observe.Assignment {
	roles := make([]observe.Assignment, n)
	for i := range roles {
		roles[i].Key = observe.RoleKey{Namespace: "ns", Deployment: fmt.Sprintf("md-%d", i/2), UID: fmt.Sprint(i / 2), Role: fmt.Sprint("role-", i%2)}
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

// owners turns an assignment around, and fails when a role has two owners.
func owners(t require.TestingT, byShard map[string][]observe.Assignment) map[observe.RoleKey]string {
	owner := make(map[observe.RoleKey]string)
	for name, roles := range byShard {
		for _, role := range roles {
			_, taken := owner[role.Key]
			require.False(t, taken, "two owners")
			owner[role.Key] = name
		}
	}
	return owner
}

func TestEveryRoleHasOneOwnerAndEveryShardIsNamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		roles := someRoles(rapid.IntRange(0, 200).Draw(t, "roles"))
		shards := someShards(rapid.IntRange(1, 12).Draw(t, "shards"))
		for i := range shards {
			shards[i].capacity = rapid.Float64().Draw(t, "capacity")
		}
		byShard := assign(roles, shards)
		require.Len(t, byShard, len(shards))
		require.Len(t, owners(t, byShard), len(roles))
	})
}

func TestOwnersFollowFromTheSetOfShardsAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		roles, shards := someRoles(50), someShards(rapid.IntRange(1, 12).Draw(t, "shards"))
		before := owners(t, assign(roles, shards))
		shuffled := rapid.Permutation(shards).Draw(t, "order")
		require.Equal(t, before, owners(t, assign(rapid.Permutation(roles).Draw(t, "roles"), shuffled)))
	})
}

func TestAShardThatComesTakesRolesAndMovesNoOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		roles, shards := someRoles(1000), someShards(rapid.IntRange(2, 12).Draw(t, "shards"))
		newcomer := shards[rapid.IntRange(0, len(shards)-1).Draw(t, "newcomer")].name
		var without []shard
		for _, s := range shards {
			if s.name != newcomer {
				without = append(without, s)
			}
		}
		before, after := owners(t, assign(roles, without)), owners(t, assign(roles, shards))
		moved := 0
		for key, owner := range after {
			if owner != before[key] {
				require.Equal(t, newcomer, owner)
				moved++
			}
		}
		fair := len(roles) / len(shards)
		require.InDelta(t, fair, moved, float64(fair)/2+20)
	})
}

func TestAShardWinsRolesInProportionToItsCapacity(t *testing.T) {
	shards := []shard{{"large", 300}, {"small", 100}, {"broken", -1}}
	byShard := assign(someRoles(8000), shards)
	require.InDelta(t, 6000, len(byShard["large"]), 300)
	require.InDelta(t, 2000, len(byShard["small"]), 300)
	require.Less(t, len(byShard["broken"]), 100)
}

func TestWithoutShardsNothingIsAssigned(t *testing.T) {
	require.Empty(t, assign(someRoles(4), nil))
}
