package decide

import (
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
	working := in.State
	working.Roles = slices.Clone(in.State.Roles)
	for i := range working.Roles {
		working.Roles[i].History = nil
	}
	for _, at := range beats(in.Now, replayed) {
		past := in
		past.Now, past.State, past.Observations = at, working, latestAt(at, in.Now, replayed)
		working = past.relive()
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

// relive is the memory after recommending once more as it was done then.
func (in Input) relive() State {
	p := &pass{in: in, now: in.Now, spec: &in.Scaler.Spec, target: in.Target, state: in.State}
	p.gather()
	for _, r := range p.roles {
		if o, seen := in.Observations[r.Name]; seen {
			r.ready = saturated(int64(o.Coverage.ReadyReplicas))
		}
	}
	p.observeRoles()
	p.recommend()
	p.keepRoles()
	return p.state
}

// beats are the times of the passes: those of the role that was observed most often.
func beats(now time.Time, replayed map[string][]observe.RoleObservation) []time.Time {
	var times []time.Time
	for _, observations := range replayed {
		own := make([]time.Time, len(observations))
		for i, o := range observations {
			own[i] = now.Add(-max(0, o.Age))
		}
		if len(own) > len(times) || len(own) == len(times) && slices.CompareFunc(own, times, time.Time.Compare) < 0 {
			times = own // the comparison keeps the choice independent of the map's order
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	return times
}

// latestAt is each role's latest observation at a time, with its age then.
func latestAt(at, now time.Time, replayed map[string][]observe.RoleObservation) map[string]observe.RoleObservation {
	latest := make(map[string]observe.RoleObservation, len(replayed))
	for role, observations := range replayed {
		for _, o := range observations {
			made := now.Add(-max(0, o.Age))
			if made.After(at) {
				continue
			}
			o.Age, o.Replayed = at.Sub(made), false
			if before, any := latest[role]; !any || o.Age <= before.Age {
				latest[role] = o
			}
		}
	}
	return latest
}
