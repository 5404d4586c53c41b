package decider

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/kube"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/process"
	"gpustack.ai/model-deployment-scaler/internal/stream"
	"gpustack.ai/model-deployment-scaler/internal/stream/observations"
)

// heartbeatEvery is how often a token goes through the queue of passes, to prove that workers take from it.
const heartbeatEvery = 5 * time.Second

// heartbeatName is the token's name: no scaler has an empty one.
var heartbeatName = types.NamespacedName{}

// leader is one leadership: everything in it begins with winning the Lease and ends with it.
type leader struct {
	cache   *kube.Cache
	writer  *kube.Writer
	events  *kube.Events
	metrics *metrics
	log     *zap.Logger
	clock   clock
	epoch   fence.Epoch
	began   time.Time // on the planner's clock

	pool      *stream.Pool
	members   func() []stream.Member // that sessions are kept with
	workers   int
	heartbeat *process.Heartbeat

	view     *observations.View // of what is observed and planned, for those who watch
	readings *readings
	schedule *schedule
	memories *memories
	moved    chan struct{} // has a token when who observes what may have to change

	started  time.Time     // on the process's clock
	gathered chan struct{} // closed when the samplers have been heard

	// Of reassign alone.
	observed map[types.NamespacedName][]observe.Assignment // by target
	placed   placement
	settled  []stream.Shard // that everything was assigned to, for good as long as nothing changes; nil: it was not

	mu      sync.Mutex
	touched map[types.NamespacedName]bool // targets to look at again
}

// run leads until ctx ends: sessions, assignments and passes. Passes that have begun are finished.
func (l *leader) run(ctx context.Context) error {
	l.log.Info("began to lead: plans and writes from now on", zap.Stringer("epoch", l.epoch))
	defer l.log.Info("stopped leading: plans and writes nothing any more", zap.Stringer("epoch", l.epoch))
	l.metrics.leader.Set(1)
	defer l.metrics.leader.Set(0)
	for _, s := range l.cache.Scalers() {
		l.touch(targetOf(s))
	}
	l.reassign() // readings that arrive with the sessions have to be wanted by then
	if err := l.cache.Subscribe(ctx, l.changes(), l.log); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return l.pool.Run(ctx) })
	g.Go(func() error { l.keepAssigned(ctx); return nil })
	g.Go(func() error { l.comeAgain(ctx); return nil })
	g.Go(func() error { l.plan(ctx); return nil })
	return g.Wait()
}

// changes connects the caches to the schedule.
func (l *leader) changes() kube.Changes {
	return kube.Changes{
		Scaler: func(s *workerv1.ModelDeploymentScaler) {
			l.touch(targetOf(s))
			l.appeared(nameOf(s))
		},
		Target:   l.forceScalersOf,
		Sampling: l.touch,
		Samplers: l.reassignSoon,
	}
}

// appeared plans a scaler at once when somebody has to hear of it: it is new, was edited or goes. One that an earlier leader
// reported waits for its readings, which are on their way: a pass without them would report that they are missing.
func (l *leader) appeared(name types.NamespacedName) {
	s := l.cache.Scaler(name)
	known := s != nil && s.DeletionTimestamp == nil && s.Status.ObservedGeneration == s.Generation
	if known && !l.memories.has(name, s.UID) {
		l.schedule.expect(name, interval(&s.Spec), time.Now())
		return
	}
	l.schedule.force(name)
}

func (l *leader) forceScalersOf(target types.NamespacedName) {
	for _, s := range l.cache.ScalersOf(target) {
		if l.memories.has(nameOf(s), s.UID) { // others are about to be planned anyway
			l.schedule.force(nameOf(s))
		}
	}
}

// observe takes an observation from a session; it must not block.
func (l *leader) observe(shard string, o observe.RoleObservation, at time.Time) {
	on := deploymentOf(o.Key)
	if !l.readings.put(shard, o, at) {
		return
	}
	for _, s := range l.cache.ScalersOf(on) {
		l.schedule.observed(nameOf(s), o.Key.Role, at.Add(-o.Age))
	}
}

// remember takes a role's history from a session; it must not block.
func (l *leader) remember(_ string, replay stream.Replay, at time.Time) {
	on := deploymentOf(replay.Key)
	if !l.awaitsPast(on) {
		return
	}
	l.readings.putPast(replay, at)
	if l.readings.whole(on) {
		for _, s := range l.cache.ScalersOf(on) {
			l.schedule.queue.Add(nameOf(s)) // which may have waited for this
		}
	}
}

// comeAgain gives every scaler another turn when the samplers have been heard.
func (l *leader) comeAgain(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-l.gathered:
		for _, s := range l.cache.Scalers() {
			l.schedule.queue.Add(nameOf(s))
		}
	}
}

// heard says whether the samplers have told what there is to know of a scaler's past: a plan on half of it would be half a plan.
func (l *leader) heard(name types.NamespacedName) bool {
	select {
	case <-l.gathered:
		return true
	default:
		s := l.cache.Scaler(name)
		return s == nil || l.readings.whole(targetOf(s)) // one that is gone is forgotten
	}
}

// awaitsPast says whether no pass of a scaler of the target has been reported by this leader yet: history is for those alone. One
// that is being planned may still take it, also anew.
func (l *leader) awaitsPast(on types.NamespacedName) bool {
	return slices.ContainsFunc(l.cache.ScalersOf(on), func(s *workerv1.ModelDeploymentScaler) bool {
		return !l.memories.settled(nameOf(s), s.UID)
	})
}

// plan runs passes until ctx ends, one at a time for each scaler.
func (l *leader) plan(ctx context.Context) {
	context.AfterFunc(ctx, l.schedule.queue.ShutDown)
	l.schedule.queue.Add(heartbeatName)
	var workers sync.WaitGroup
	for range l.workers {
		workers.Go(func() {
			for l.next(ctx) {
			}
		})
	}
	workers.Wait()
}

// next takes one scaler from the queue; false when the queue is shut down.
func (l *leader) next(ctx context.Context) bool {
	name, down := l.schedule.queue.Get()
	if down {
		return false
	}
	defer l.schedule.queue.Done(name)
	switch {
	case ctx.Err() != nil:
	case name == heartbeatName:
		l.heartbeat.Beat()
		l.schedule.queue.AddAfter(heartbeatName, heartbeatEvery)
	default:
		l.turn(ctx, name)
	}
	return true
}

// turn runs a scaler's pass if it is time, and plans the next. One whose past is not heard yet comes again when it is.
func (l *leader) turn(ctx context.Context, name types.NamespacedName) {
	if !l.heard(name) {
		return
	}
	began := time.Now()
	run, wait := l.schedule.begin(name, began)
	if !run {
		l.schedule.queue.AddAfter(name, wait)
		return
	}
	every, err := l.passSafely(ctx, name)
	l.metrics.passed(time.Since(began), err)
	switch {
	case err != nil && ctx.Err() != nil: // the end of this leadership, not a failure
	case err != nil:
		l.failed(name, err)
	case every == 0: // gone
	default:
		l.schedule.succeed(name, every)
	}
}

// passSafely makes a failure of a panic: a defect that one scaler runs into must not stop the planning of all, here and then
// at every standby. Memory is as the last pass left it; what was written to the target is found there (D33).
func (l *leader) passSafely(ctx context.Context, name types.NamespacedName) (every time.Duration, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			l.log.Error("pass panicked, which is a defect", zap.Stringer("scaler", name), zap.Any("cause", cause), zap.Stack("stack"))
			err = fmt.Errorf("planning scaler %s: panic: %v", name, cause)
		}
	}()
	return l.pass(ctx, name)
}

// failed plans another try. A lasting failure is told when it begins and then ever more rarely.
func (l *leader) failed(name types.NamespacedName, err error) {
	bound := maxBackoff
	if kube.Outdated(err) {
		bound = briefBackoff
	}
	failures := l.schedule.fail(name, time.Now(), bound)
	log := l.log.Debug
	if failures&(failures-1) == 0 {
		log = l.log.Warn
	}
	log("pass failed and is tried again", zap.Stringer("scaler", name), zap.Int("failures", failures), zap.Error(err))
}
