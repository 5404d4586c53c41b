package decide

import (
	"maps"
	"slices"
	"time"

	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/windows"
)

// Rebuild is in.State with the windows, histories and predictors that the replayed observations make, oldest first by role,
// each with its Age as of in.Now (D55). The recommender runs over them with their own ready counts; constraints do not run, and
// nothing else of the memory changes. A new leader calls it once for a scaler before its first Plan.
func Rebuild(in Input, replayed map[string][]observe.RoleObservation) State {
	known := in.State.Binding.TargetUID
	if in.Target == nil || known != "" && known != in.Target.UID {
		return in.State
	}
	reels, seen := reelsOf(in.Now, replayed), make(map[string]observe.RoleObservation, len(replayed))
	times := beats(reels)
	working := in.State
	working.Roles = slices.Clone(in.State.Roles)
	for i := range working.Roles {
		working.Roles[i].History = make(windows.History, 0, len(times))
	}
	working.Predictors = slices.Clone(in.State.Predictors)
	for i := range working.Predictors {
		working.Predictors[i].History = slices.Grow(slices.Clone(working.Predictors[i].History), len(times))
	}
	p := &pass{in: in, spec: &in.Scaler.Spec, target: in.Target, alone: true}
	p.gatherPolicy()
	for _, at := range times {
		for _, r := range reels {
			r.show(at, seen)
		}
		working = p.relive(at, working, seen)
	}
	rebuilt := in.State
	rebuilt.Predictors = working.Predictors
	rebuilt.Roles = slices.Clone(working.Roles)
	for i := range rebuilt.Roles {
		r := &rebuilt.Roles[i]
		if stored := in.State.role(r.Name); stored != nil {
			r.Current, r.Ready = stored.Current, stored.Ready
			r.History = windows.HistoryOf(in.Now, slices.Concat(stored.History, r.History))
		}
	}
	return rebuilt
}

// relive is the memory after recommending once more, under the same policy, as it was done then.
func (p *pass) relive(at time.Time, state State, observations map[string]observe.RoleObservation) State {
	p.now, p.state = at, state
	p.in.Now, p.in.State, p.in.Observations = at, state, observations
	p.gatherRoles()
	for _, r := range p.roles {
		if o, seen := observations[r.Name]; seen {
			r.ready = saturated(int64(o.Coverage.ReadyReplicas))
		}
	}
	p.observeRoles()
	p.recommend()
	p.keepRoles()
	return p.state
}

// reel is what was replayed of one role, oldest first.
type reel struct {
	role  string
	made  []time.Time
	list  []observe.RoleObservation
	shown int // how many have been
}

// reelsOf is in the order of the roles' names: nothing may depend on that of a map.
func reelsOf(now time.Time, replayed map[string][]observe.RoleObservation) []*reel {
	reels := make([]*reel, 0, len(replayed))
	for _, role := range slices.Sorted(maps.Keys(replayed)) {
		r := &reel{role: role, list: replayed[role], made: make([]time.Time, len(replayed[role]))}
		for i := range r.list {
			r.made[i] = now.Add(-max(0, r.list[i].Age))
		}
		reels = append(reels, r)
	}
	return reels
}

// show puts the role's latest observation at a time in, with its age then. Times only grow from call to call.
func (r *reel) show(at time.Time, into map[string]observe.RoleObservation) {
	for r.shown < len(r.list) && !r.made[r.shown].After(at) {
		r.shown++
	}
	if r.shown > 0 {
		o := r.list[r.shown-1]
		o.Age, o.Replayed = at.Sub(r.made[r.shown-1]), false
		into[r.role] = o
	}
}

// beats are the times of the passes: those of the role that was observed most often.
func beats(reels []*reel) (times []time.Time) {
	for _, r := range reels {
		if len(r.made) > len(times) || len(r.made) == len(times) && slices.CompareFunc(r.made, times, time.Time.Compare) < 0 {
			times = r.made
		}
	}
	return times
}
