package sim

import (
	"cmp"
	"maps"
	"slices"

	"gpustack.ai/model-deployment-scaler/internal/target"
)

// admit gives quota to instances that want it: the longest waiting first, then in the order of the spec. One that does not
// fit lets others pass.
func (w *World) admit() {
	used := w.used()
	for _, i := range w.waiting() {
		kind, pods := i.role.InstanceType, int(i.role.Size)
		limit, limited := w.o.Quota[kind]
		if w.now-i.created < w.o.AdmissionDelay.Seconds()-1e-9 || limited && used[kind]+pods > limit {
			continue
		}
		used[kind] += pods
		i.enter(Starting, w.now)
	}
}

// waiting instances in the order in which they get quota.
func (w *World) waiting() []*instance {
	var list []*instance
	for _, d := range w.deployments {
		for _, i := range d.instances {
			if i.state == Pending {
				list = append(list, i)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b *instance) int { return cmp.Compare(a.created, b.created) })
	return list
}

// used is the quota in use by instanceType, in Pods.
func (w *World) used() map[string]int {
	used := make(map[string]int)
	for _, d := range w.deployments {
		for _, i := range d.instances {
			if i.state != Pending {
				used[i.role.InstanceType] += int(i.role.Size)
			}
		}
	}
	return used
}

// SetQuota of an instanceType in Pods; what is in use stays. A negative quota is none.
func (w *World) SetQuota(instanceType string, pods int) {
	quota := maps.Clone(w.o.Quota)
	if quota == nil {
		quota = make(map[string]int)
	}
	quota[instanceType] = pods
	if pods < 0 {
		delete(quota, instanceType)
	}
	w.o.Quota = quota
}

// Quota in use by instanceType, in Pods.
func (w *World) Quota() map[string]int { return w.used() }

// settle moves the lifecycle of a deployment on.
func (w *World) settle(d *deployment) {
	for _, i := range d.instances {
		if i.state == Starting && w.elapsed(i, w.o.ColdStart) && !d.retiring(i) {
			w.boot(d, i)
		}
	}
	w.retire(d)
}

// retiring says that the instance is on its way out.
func (d *deployment) retiring(i *instance) bool {
	return d.retirement != nil && d.retirement.ID == i.id && d.retirement.State != target.RetirementAborted
}
