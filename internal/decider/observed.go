package decider

import (
	"slices"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"

	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// lookAgain brings the observed roles of touched targets up to date, with whose readings are kept, and says whether that changed
// any.
func (l *leader) lookAgain() (changed bool) {
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
		before, known := l.observed[on]
		if snapshot == nil || every == 0 {
			delete(l.observed, on)
			l.readings.retain(on, nil)
			changed = changed || known
			continue
		}
		roles := l.rolesOf(on, snapshot, every)
		l.observed[on] = roles
		l.readings.retain(on, roles)
		changed = changed || !known || !slices.EqualFunc(before, roles, sameRole)
	}
	return changed
}

// sameRole says that a role is to be observed as before. Ages of its readings are not told here yet.
func sameRole(a, b observe.Assignment) bool {
	return a.Key == b.Key && a.Kind == b.Kind && a.Engine == b.Engine && a.Interval == b.Interval &&
		a.ReadyReplicas == b.ReadyReplicas && slices.Equal(a.Pods, b.Pods)
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
