package decider

import (
	"context"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"

	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// settle is how long changes are collected before assignments follow them.
const settle = 200 * time.Millisecond

// touch notes that what is to be observed of a target may have changed. It never blocks.
func (l *leader) touch(name types.NamespacedName) {
	l.mu.Lock()
	l.touched[name] = true
	l.mu.Unlock()
	l.reassignSoon()
}

// reassignSoon notes that who observes what may have to change. It never blocks.
func (l *leader) reassignSoon() {
	select {
	case l.moved <- struct{}{}:
	default:
	}
}

// keepAssigned follows changes until ctx ends.
func (l *leader) keepAssigned(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.moved:
		}
		l.reassign()
		select {
		case <-ctx.Done():
			return
		case <-time.After(settle):
		}
	}
}

// reassign tells every sampler what it owns by now. Only targets that were touched are looked at again.
func (l *leader) reassign() {
	l.lookAgain()
	var wanted []observe.Assignment
	keys := make(map[observe.RoleKey]bool)
	for _, roles := range l.observed {
		for _, role := range roles {
			keys[role.Key] = true
			role.LastScrapeAge = l.readings.age(role.Key, time.Now())
			wanted = append(wanted, role)
		}
	}
	l.readings.retain(keys)
	l.pool.SetMembers(l.members())
	var shards []shard
	for _, s := range l.pool.Live() {
		shards = append(shards, shard{name: s.Name, capacity: s.Capacity})
	}
	l.pool.Assign(assign(wanted, shards))
	l.metrics.samplers.Set(float64(len(shards)))
}

// lookAgain brings the observed roles of touched targets up to date.
func (l *leader) lookAgain() {
	l.mu.Lock()
	touched := l.touched
	l.touched = make(map[types.NamespacedName]bool)
	l.mu.Unlock()
	for on := range touched {
		snapshot, err := l.cache.Snapshot(on)
		if err != nil {
			l.log.Warn("target cannot be observed", zap.Stringer("target", on), zap.Error(err))
		}
		every := l.shortestInterval(on)
		if snapshot == nil || every == 0 {
			delete(l.observed, on)
			continue
		}
		l.observed[on] = l.rolesOf(on, snapshot, every)
	}
}

// shortestInterval of the scalers that plan a target, which is observed once for all of them (D4); zero when none does.
func (l *leader) shortestInterval(on types.NamespacedName) (shortest time.Duration) {
	for _, s := range l.cache.ScalersOf(on) {
		if s.Spec.Suspend || s.DeletionTimestamp != nil {
			continue
		}
		if every := interval(&s.Spec); shortest == 0 || every < shortest {
			shortest = every
		}
	}
	return shortest
}

// rolesOf describes the roles of a target to a sampler, from one view of the cluster (D1), and tells the target's scalers
// which of them have something to observe. A role without an endpoint stays assigned: its windows must not be lost while its
// Pods restart.
func (l *leader) rolesOf(on types.NamespacedName, s *target.Snapshot, every time.Duration) []observe.Assignment {
	assignments := make([]observe.Assignment, 0, len(s.Roles))
	var answering []string
	for _, role := range s.Roles {
		a := observe.Assignment{
			Key:           observe.RoleKey{Namespace: s.Namespace, Deployment: s.Name, UID: s.UID, Role: role.Name},
			Kind:          role.Kind,
			Engine:        s.Engine,
			Interval:      every,
			ReadyReplicas: target.Ready(s.Instances, role.Name),
			Pods:          target.Endpoints(s.Instances, role.Name),
		}
		if len(a.Pods) > 0 {
			answering = append(answering, role.Name)
		}
		assignments = append(assignments, a)
	}
	for _, scaler := range l.cache.ScalersOf(on) {
		l.schedule.expectRoles(nameOf(scaler), answering)
	}
	return assignments
}
