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
	p := &pass{in: in, spec: &in.Scaler.Spec, target: in.Target, rebuilding: true}
	p.gatherPolicy()
	tracks, seen := tracksOf(in.Now, replayed), make(map[string]observe.RoleObservation, len(replayed))
	times := passTimes(tracks)
	working := toRebuild(in.State, len(times))
	for _, at := range times {
		for _, t := range tracks {
			t.advance(at, seen)
		}
		working = p.replay(at, working, seen)
	}
	rebuilt := in.State
	rebuilt.Predictors = working.Predictors
	rebuilt.Roles = slices.Clone(working.Roles)
	for i := range rebuilt.Roles {
		r := &rebuilt.Roles[i]
		if stored := in.State.role(r.Name); stored != nil {
			r.Current, r.Ready = stored.Current, stored.Ready
			r.History = slices.Concat(stored.History, r.History)
		}
		r.History = windows.HistoryOf(in.Now, r.History)
	}
	return rebuilt
}

// toRebuild is a copy of the memory whose lists are its own, with room for so many passes. Histories begin anew in it.
func toRebuild(s State, passes int) State {
	s.Roles, s.Predictors = slices.Clone(s.Roles), slices.Clone(s.Predictors)
	for i := range s.Roles {
		s.Roles[i].History = make(windows.History, 0, passes)
	}
	for i := range s.Predictors {
		s.Predictors[i].History = slices.Grow(slices.Clone(s.Predictors[i].History), passes)
	}
	return s
}

// replay is the memory after recommending once more, under the same policy, as it was done then.
func (p *pass) replay(at time.Time, state State, observations map[string]observe.RoleObservation) State {
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

// track is what was replayed of one role, oldest first.
type track struct {
	role   string
	made   []time.Time
	list   []observe.RoleObservation
	played int // how many have been
}

// tracksOf is in the order of the roles' names: nothing may depend on that of a map.
func tracksOf(now time.Time, replayed map[string][]observe.RoleObservation) []*track {
	tracks := make([]*track, 0, len(replayed))
	for _, role := range slices.Sorted(maps.Keys(replayed)) {
		t := &track{role: role, list: replayed[role], made: make([]time.Time, len(replayed[role]))}
		for i := range t.list {
			t.made[i] = now.Add(-max(0, t.list[i].Age))
		}
		tracks = append(tracks, t)
	}
	return tracks
}

// advance puts the role's latest observation at a time in, with its age then. Times only grow from call to call.
func (t *track) advance(at time.Time, into map[string]observe.RoleObservation) {
	for t.played < len(t.list) && !t.made[t.played].After(at) {
		t.played++
	}
	if t.played > 0 {
		o := t.list[t.played-1]
		o.Age, o.Replayed = at.Sub(t.made[t.played-1]), false
		into[t.role] = o
	}
}

// passTimes are those of the role that was observed most often.
func passTimes(tracks []*track) (times []time.Time) {
	for _, t := range tracks {
		if len(t.made) > len(times) || len(t.made) == len(times) && slices.CompareFunc(t.made, times, time.Time.Compare) < 0 {
			times = t.made
		}
	}
	return times
}
