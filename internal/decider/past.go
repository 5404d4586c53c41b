package decider

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/stream"
	"gpustack.ai/model-deployment-scaler/internal/target"
	"gpustack.ai/model-deployment-scaler/internal/windows"
)

// maxPast bounds what is kept of one role's replay: what one sampler may send (D55), from two.
const maxPast = 512

// past is a part of a role's history, as it came: a thousand roles' worth of it waits at a time.
type past struct {
	shard   string
	replay  stream.Replay
	arrived time.Time // on the monotonic clock
	whole   bool      // it spans all that is asked for
}

// putPast keeps the history of a role that is wanted (D55). Of a role that has moved two samplers may have a part each.
func (r *readings) putPast(shard string, replay stream.Replay, arrived time.Time) {
	told := past{shard, replay, arrived, replay.Spans(replaySpan, windows.MaxGap)}
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.past[replay.Key]
	passes := replay.Len()
	for _, p := range kept {
		passes += p.replay.Len()
	}
	if _, wanted := r.byKey[replay.Key]; wanted && passes <= maxPast {
		r.past[replay.Key] = append(kept, told)
	}
}

// whole says whether the history of every role of a target is there, as far back as is asked for, and from the sampler that
// observes the role now: others have no more of it than a gap that history may have (D24).
func (r *readings) whole(on types.NamespacedName) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, key := range r.roles[on] {
		latest := r.byKey[key]
		if latest == nil || !slices.ContainsFunc(r.past[key], func(p past) bool { return p.whole && p.shard == latest.shard }) {
			return false
		}
	}
	return len(r.roles[on]) > 0
}

// room for the observations of one role's history, to be used again: a new leader makes those of thousands, one after the other.
var room = sync.Pool{New: func() any { return new([]observe.RoleObservation) }}

// pastOf gives the replayed observations of a target by role, oldest first, Age as of now. They are the caller's until done.
func (r *readings) pastOf(s *target.Snapshot, now time.Time) (found map[string][]observe.RoleObservation, done func()) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	found = make(map[string][]observe.RoleObservation)
	var rooms []*[]observe.RoleObservation
	for _, role := range s.Roles {
		if len(r.past[keyOf(s, role.Name)]) == 0 {
			continue
		}
		taken := room.Get().(*[]observe.RoleObservation)
		rooms = append(rooms, taken)
		list := (*taken)[:0]
		for _, p := range r.past[keyOf(s, role.Name)] {
			list = p.replay.AppendTo(list, p.arrived)
			for i := len(list) - p.replay.Len(); i < len(list); i++ {
				list[i].Age += now.Sub(p.arrived)
			}
		}
		byAge := func(a, b observe.RoleObservation) int { return cmp.Compare(b.Age, a.Age) }
		if !slices.IsSortedFunc(list, byAge) { // parts of two samplers
			slices.SortStableFunc(list, byAge)
		}
		*taken, found[role.Name] = list, list
	}
	return found, func() {
		for _, taken := range rooms {
			room.Put(taken)
		}
	}
}

// dropPast forgets the replayed observations of a target: they are rebuilt from once.
func (r *readings) dropPast(s *target.Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, role := range s.Roles {
		delete(r.past, keyOf(s, role.Name))
	}
}
