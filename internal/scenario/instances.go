package scenario

import (
	"cmp"
	"math"
	"slices"
)

// follow makes the instances of a role what its count declares. One that was never admitted vanishes at once when it is removed.
func (w *world) follow(r *Role) {
	for o := range int(r.Replicas) {
		in := w.instances[slot{r.Name, o}]
		if in == nil {
			in = &instance{asked: w.now}
			w.instances[slot{r.Name, o}] = in
		}
		in.pods, in.workload, in.goneAt = true, true, math.Inf(1)
	}
	for at, in := range w.instances {
		if at.role != r.Name || at.ordinal < int(r.Replicas) || !math.IsInf(in.goneAt, 1) {
			continue
		}
		if !in.admitted {
			delete(w.instances, at)
			continue
		}
		in.goneAt = w.now + float64(w.Retire)
	}
}

// advance lets time pass: what is due happens.
func (w *world) advance(now float64) {
	w.now = now
	for at, in := range w.instances {
		if in.goneAt <= now || !in.pods && !in.workload {
			delete(w.instances, at)
		}
	}
	for _, at := range w.waiting() {
		in := w.instances[at]
		if due := in.asked + float64(w.Admit); due <= now && w.room(at.role) {
			in.admitted, in.admittedAt = true, due
		}
	}
}

// waiting lists the ordinals in the order in which they get room: by commit, then spec order, then ordinal.
func (w *world) waiting() []slot {
	var found []slot
	for at, in := range w.instances {
		if !in.admitted && in.workload && math.IsInf(in.goneAt, 1) {
			found = append(found, at)
		}
	}
	place := func(s slot) int {
		return slices.IndexFunc(w.roles, func(r Role) bool { return r.Name == s.role })
	}
	slices.SortFunc(found, func(a, b slot) int {
		return cmp.Or(cmp.Compare(w.instances[a].asked, w.instances[b].asked), cmp.Compare(place(a), place(b)), cmp.Compare(a.ordinal, b.ordinal))
	})
	return found
}

// room says that the pool of a role can hold one more.
func (w *world) room(role string) bool {
	pool := w.role(role).InstanceType
	size, limited := w.Pools[pool]
	if !limited {
		return true
	}
	for at, in := range w.instances {
		if r := w.role(at.role); r != nil && r.InstanceType == pool && in.admitted && in.workload {
			size--
		}
	}
	return size > 0
}
