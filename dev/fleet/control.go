package fleet

import (
	"fmt"

	"gpustack.ai/model-deployment-scaler/internal/sim"
)

// SetTraffic of a deployment from now on, or from its creation; nil ends it.
func (f *Fleet) SetTraffic(namespace, deployment string, t sim.Traffic) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.traffic[name{namespace, deployment}] = t
	if key, ok := f.key(namespace, deployment); ok {
		f.world.SetTraffic(key, t)
	}
}

// SetQuota of an instanceType in Pods; what is in use stays. A negative quota is none.
func (f *Fleet) SetQuota(instanceType string, pods int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.world.SetQuota(instanceType, pods)
}

// Abort ends the retirement under way of a deployment, if there is one that can still be ended, and says whether it did.
func (f *Fleet) Abort(namespace, deployment, reason string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	key, ok := f.key(namespace, deployment)
	return ok && f.world.Abort(key, reason)
}

// Instances of a deployment, by role in spec order, then by ordinal.
func (f *Fleet) Instances(namespace, deployment string) []sim.Instance {
	f.mu.Lock()
	defer f.mu.Unlock()
	key, _ := f.key(namespace, deployment)
	return f.world.Instances(key)
}

// Totals of the requests of a deployment.
func (f *Fleet) Totals(namespace, deployment string) sim.Totals {
	f.mu.Lock()
	defer f.mu.Unlock()
	key, _ := f.key(namespace, deployment)
	return f.world.Totals(key)
}

// Break what a ready Pod serves, or mend it with Healthy. A restarted Pod stays broken.
func (f *Fleet) Break(namespace, pod string, fault Fault) error {
	if !f.listeners.breaks(name{namespace, pod}, fault) {
		return fmt.Errorf("breaking Pod %s/%s: it does not serve", namespace, pod)
	}
	return nil
}

// Restart the engine container of a ready Pod: its requests are lost, its counters begin anew after another cold start.
func (f *Fleet) Restart(namespace, pod string) error {
	served, ok := f.listeners.find(name{namespace, pod})
	if !ok {
		return fmt.Errorf("restarting the engine of Pod %s/%s: it does not serve", namespace, pod)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.world.Restart(served.key, served.id)
	return nil
}

// Evict a ready Pod as Kueue does: its instance loses its quota and its requests, its Pods are replaced, and it waits for quota
// again, behind all others. If there is room left, it comes back at once.
func (f *Fleet) Evict(namespace, pod string) error {
	served, ok := f.listeners.find(name{namespace, pod})
	if !ok {
		return fmt.Errorf("evicting Pod %s/%s: it does not serve", namespace, pod)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.world.Evict(served.key, served.id)
	return nil
}

// Serving lists the addresses, host:port, that the fleet listens on.
func (f *Fleet) Serving() []string { return f.listeners.addresses() }

// key of a deployment that the world knows, by its name.
func (f *Fleet) key(namespace, deployment string) (sim.Key, bool) {
	for _, key := range f.world.Keys() {
		if key.Namespace == namespace && key.Name == deployment {
			return key, true
		}
	}
	return sim.Key{}, false
}
