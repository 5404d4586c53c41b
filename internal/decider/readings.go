package decider

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// reading is the latest observation of a role.
type reading struct {
	observation observe.RoleObservation
	arrived     time.Time // on the monotonic clock
	shard       string
}

// age of the pass that it tells of (D12).
func (r reading) age(now time.Time) time.Duration {
	return r.observation.Age + now.Sub(r.arrived)
}

// current is the observation with its Age as of now.
func (r reading) current(now time.Time) observe.RoleObservation {
	o := r.observation
	o.Age = r.age(now)
	return o
}

// newerThan says whether r tells of a later pass. A new session hands over once more what the old one did.
func (r reading) newerThan(before *reading) bool {
	if before == nil {
		return true
	}
	same := r.shard == before.shard && r.observation.Sequence == before.observation.Sequence &&
		r.observation.Start.Equal(before.observation.Start)
	return !same && r.age(r.arrived) < before.age(r.arrived)
}

// readings holds the latest observation of every role that is to be observed. Scalers of one target share it (D4).
type readings struct {
	mu    sync.RWMutex
	roles map[types.NamespacedName][]observe.RoleKey // that are wanted, by target
	byKey map[observe.RoleKey]*reading               // of each that is wanted; nil: nothing seen yet
	past  map[observe.RoleKey][]past
}

func newReadings() *readings {
	return &readings{
		roles: make(map[types.NamespacedName][]observe.RoleKey),
		byKey: make(map[observe.RoleKey]*reading),
		past:  make(map[observe.RoleKey][]past),
	}
}

// retain makes these the roles of a target that are wanted, and forgets its others.
func (r *readings) retain(on types.NamespacedName, roles []observe.Assignment) {
	keys := make([]observe.RoleKey, len(roles))
	for i, role := range roles {
		keys[i] = role.Key
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range r.roles[on] {
		if !slices.Contains(keys, key) {
			delete(r.byKey, key)
			delete(r.past, key)
		}
	}
	for _, key := range keys {
		if _, found := r.byKey[key]; !found {
			r.byKey[key] = nil
		}
	}
	r.roles[on] = keys
	if len(keys) == 0 {
		delete(r.roles, on)
	}
}

// put takes an observation and says whether it is news: of a role that is wanted, not history (D12, D55), and of a later
// pass than the one at hand, which matters when a role has moved between shards.
func (r *readings) put(shard string, o observe.RoleObservation, arrived time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, wanted := r.byKey[o.Key]
	if !wanted || o.Replayed {
		return false
	}
	next := &reading{observation: o, arrived: arrived, shard: shard}
	if !next.newerThan(before) {
		return false
	}
	r.byKey[o.Key] = next
	return true
}

// of gives the readings of a target by role, Age as of now.
func (r *readings) of(s *target.Snapshot, now time.Time) map[string]observe.RoleObservation {
	r.mu.RLock()
	defer r.mu.RUnlock()
	found := make(map[string]observe.RoleObservation, len(s.Roles))
	for _, role := range s.Roles {
		if latest := r.byKey[keyOf(s, role.Name)]; latest != nil {
			found[role.Name] = latest.current(now)
		}
	}
	return found
}

func deploymentOf(key observe.RoleKey) types.NamespacedName {
	return types.NamespacedName{Namespace: key.Namespace, Name: key.Deployment}
}

func keyOf(s *target.Snapshot, role string) observe.RoleKey {
	return observe.RoleKey{Namespace: s.Namespace, Deployment: s.Name, UID: s.UID, Role: role}
}

// shardOf is the shard that the latest reading of a role came from; empty when there is none.
func (r *readings) shardOf(key observe.RoleKey) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if latest := r.byKey[key]; latest != nil {
		return latest.shard
	}
	return ""
}

// age of the latest reading of a role; negative when there is none (D4).
func (r *readings) age(key observe.RoleKey, now time.Time) time.Duration {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if latest := r.byKey[key]; latest != nil {
		return latest.age(now)
	}
	return -1
}
