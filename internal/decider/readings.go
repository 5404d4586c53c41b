package decider

import (
	"sync"
	"time"

	"gpustack.ai/model-deployment-scaler/internal/observe"
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
	byKey map[observe.RoleKey]*reading // nil: wanted, nothing seen yet
}

func newReadings() *readings { return &readings{byKey: make(map[observe.RoleKey]*reading)} }

// retain forgets every role but these.
func (r *readings) retain(keys map[observe.RoleKey]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.byKey {
		if !keys[key] {
			delete(r.byKey, key)
		}
	}
	for key := range keys {
		if _, found := r.byKey[key]; !found {
			r.byKey[key] = nil
		}
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
func (r *readings) of(namespace, deployment, uid string, roles []string, now time.Time) map[string]observe.RoleObservation {
	r.mu.RLock()
	defer r.mu.RUnlock()
	found := make(map[string]observe.RoleObservation, len(roles))
	for _, role := range roles {
		latest := r.byKey[observe.RoleKey{Namespace: namespace, Deployment: deployment, UID: uid, Role: role}]
		if latest == nil {
			continue
		}
		o := latest.observation
		o.Age = latest.age(now)
		found[role] = o
	}
	joinTTFT(found)
	return found
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

// joinTTFT gives a Prefill role of SGLang, which records no TTFT, that of the target's Decode role (D11). The two may be
// observed by two samplers, so that this is the first place where they meet.
func joinTTFT(byRole map[string]observe.RoleObservation) {
	var decode observe.RoleObservation
	for _, o := range byRole {
		if o.Kind == observe.Decode && o.Engine == observe.SGLang {
			decode = o
		}
	}
	for role, o := range byRole {
		if o.Kind == observe.Prefill && o.Engine == observe.SGLang && o.TTFT.Source == "" {
			o.TTFT = decode.TTFT
			byRole[role] = o
		}
	}
}
