package decider

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/stream"
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
		var later <-chan time.Time
		if wait := l.reassign(); wait > 0 {
			later = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(settle):
		}
		select {
		case <-ctx.Done():
			return
		case <-l.moved:
		case <-later:
		}
	}
}

// reassign tells every sampler what it owns by now, and says when to do so again though nothing may move; zero: never. Only
// targets that were touched are looked at again, and when they and the samplers are as they were, nothing else is: Pods of a
// large fleet always change in some way.
func (l *leader) reassign() time.Duration {
	if l.lookAgain() {
		l.settled = nil
	}
	members := l.members()
	l.pool.SetMembers(members)
	live, now := l.pool.Live(), time.Now()
	l.metrics.samplers.Set(float64(len(live)))
	if wait := l.gathering(live, len(members), now); wait > 0 {
		return wait
	}
	if l.settled != nil && slices.Equal(live, l.settled) {
		return 0
	}
	l.settled = nil
	again := l.assign(l.wanted(now), shardsOf(live), now)
	if again == 0 {
		l.settled = append([]stream.Shard{}, live...)
	}
	return again
}

// wanted are the observed roles, with the ages of their readings.
func (l *leader) wanted(now time.Time) (wanted []observe.Assignment) {
	for _, roles := range l.observed {
		for _, role := range roles {
			role.LastScrapeAge = l.readings.age(role.Key, now)
			wanted = append(wanted, role)
		}
	}
	return wanted
}

// assign places the roles and tells the samplers; it says when the wait for the first of the lost ones is over.
func (l *leader) assign(wanted []observe.Assignment, live []shard, now time.Time) (again time.Duration) {
	for _, role := range wanted { // what a sampler observed before this leader began, or while it was cut off, stays with it
		if _, owned := l.placed.owners[role.Key]; !owned {
			if by := l.readings.shardOf(role.Key); by != "" {
				l.placed.owners[role.Key] = by
			}
		}
	}
	shards := waitedFor(l.placed, live, l.pool.Departed(), now)
	l.placed = place(l.placed, wanted, shards)
	l.pool.Assign(l.placed.byShard(wanted))
	for _, s := range shards {
		if left := s.lost.Add(grace).Sub(now); !s.lost.IsZero() && (again == 0 || left < again) {
			again = left
		}
	}
	return again
}

func shardsOf(live []stream.Shard) []shard {
	shards := make([]shard, len(live))
	for i, s := range live {
		shards[i] = shard{name: s.Name, capacity: s.Capacity}
	}
	return shards
}
