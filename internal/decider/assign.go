package decider

import (
	"math"

	"github.com/cespare/xxhash/v2"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// shard is a live sampler: its name and how many scrapes a second it can do.
type shard struct {
	name     string
	capacity float64
}

// assign gives every role to one shard by weighted rendezvous hashing: a shard that comes or goes moves only the roles that
// it gets or had, and a role's owner follows from the set of shards alone. Every shard is in the result, with nothing to do
// too. Without a shard the result is empty.
func assign(roles []observe.Assignment, shards []shard) map[string][]observe.Assignment {
	owned := make(map[string][]observe.Assignment, len(shards))
	for _, s := range shards {
		owned[s.name] = nil
	}
	for _, role := range roles {
		if owner, found := ownerOf(role.Key, shards); found {
			owned[owner] = append(owned[owner], role)
		}
	}
	return owned
}

// ownerOf is the shard with the highest score; of equal ones, which only a broken hash gives, the first by name.
func ownerOf(key observe.RoleKey, shards []shard) (owner string, found bool) {
	best := math.Inf(-1)
	for _, s := range shards {
		score := score(key, s)
		if !found || score > best || score == best && s.name < owner {
			owner, best, found = s.name, score, true
		}
	}
	return owner, found
}

// score is larger for a shard that should have the role; in proportion to capacity shards win roles.
func score(key observe.RoleKey, s shard) float64 {
	digest := xxhash.New()
	for _, part := range []string{s.name, key.Namespace, key.Deployment, key.UID, key.Role} {
		_, _ = digest.WriteString(part) // never fails
		_, _ = digest.Write([]byte{0})
	}
	uniform := (float64(digest.Sum64()>>11) + 0.5) / (1 << 53) // within (0, 1)
	return -weight(s) / math.Log(uniform)
}

// weight of a shard; one that announces nonsense counts as the smallest.
func weight(s shard) float64 {
	if s.capacity >= 1 && !math.IsInf(s.capacity, 1) {
		return s.capacity
	}
	return 1
}
