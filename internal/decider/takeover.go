package decider

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/stream"
)

const (
	// replaySpan is how much history samplers are asked for (D55).
	replaySpan = 30 * time.Minute
	// gatherTimeout is how long a new leader waits for a sampler that does not come.
	gatherTimeout = 2 * time.Second
	// replayTimeout is how long it waits for the replay of one that came.
	replayTimeout = 10 * time.Second
)

// remember takes a role's history from a session; it must not block.
func (l *leader) remember(shard string, replay stream.Replay, at time.Time) {
	on := deploymentOf(replay.Key)
	if !l.awaitsPast(on) {
		return
	}
	l.readings.putPast(shard, replay, at)
	if l.readings.whole(on) {
		l.requeue(l.cache.ScalersOf(on))
	}
}

// requeueGathered gives every scaler another turn when the samplers have been heard.
func (l *leader) requeueGathered(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-l.gathered:
		l.requeue(l.cache.Scalers())
	}
}

// requeue gives scalers another turn: theirs may have come before their past was heard.
func (l *leader) requeue(scalers []*workerv1.ModelDeploymentScaler) {
	for _, s := range scalers {
		l.schedule.queue.Add(nameOf(s))
	}
}

// heard says whether the samplers have told what there is to know of a scaler's past: a plan on half of it would be half a plan.
func (l *leader) heard(name types.NamespacedName) bool {
	select {
	case <-l.gathered:
		return true
	default:
	}
	s := l.cache.Scaler(name)
	if s == nil || l.memories.settled(name, s.UID) { // to be forgotten, or reported once: its past was used, and may be gone
		return true
	}
	return l.readings.whole(targetOf(s))
}

// awaitsPast says whether no pass of a scaler of the target has been reported by this leader yet: history is for those alone. One
// that is being planned may still take it, also anew.
func (l *leader) awaitsPast(on types.NamespacedName) bool {
	return slices.ContainsFunc(l.cache.ScalersOf(on), func(s *workerv1.ModelDeploymentScaler) bool {
		return !l.memories.settled(nameOf(s), s.UID)
	})
}

// gathering is how long a new leader still waits for the samplers before it changes what they do, and plans what it has not heard
// all of: until all have replayed what they know, or their time is over. Then it is over for good.
func (l *leader) gathering(live []stream.Shard, members int, now time.Time) time.Duration {
	select {
	case <-l.gathered:
		return 0
	default:
	}
	replayed := 0
	for _, s := range live {
		if s.Replayed {
			replayed++
		}
	}
	limit := gatherTimeout
	if replayed < len(live) {
		limit = replayTimeout
	}
	passed := now.Sub(l.started)
	if replayed < members && passed < limit {
		return limit - passed
	}
	l.log.Info("heard the samplers", zap.Int("replayed", replayed), zap.Int("samplers", members), zap.Duration("took", passed))
	close(l.gathered)
	return 0
}
