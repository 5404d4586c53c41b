package decider

import (
	"context"
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

func (d *decider) newLeader(epoch fence.Epoch, events *kube.Events) *leader {
	l := &leader{
		cache: d.cache, writer: kube.NewWriter(d.client, d.election, epoch), events: events,
		metrics: d.metrics, log: d.process.Log, clock: newClock(), epoch: epoch,
		view: d.observations.Lead(), members: d.members, workers: d.options.Workers, heartbeat: process.NewHeartbeat(heartbeatLimit),
		readings: newReadings(), schedule: newSchedule(d.metrics.queue), memories: newMemories(),
		moved:   make(chan struct{}, 1),
		started: time.Now(), gathered: make(chan struct{}),
		placed:   placement{owners: make(map[observe.RoleKey]string)},
		observed: make(map[types.NamespacedName][]observe.Assignment), touched: make(map[types.NamespacedName]bool),
	}
	l.began = l.clock.now()
	o := stream.PoolOptions{
		Leader:        d.identity,
		Epoch:         stream.Epoch{LeaseUID: epoch.LeaseUID, Transitions: epoch.Transitions},
		ReplaySpan:    replaySpan,
		OnObservation: l.observe,
		OnReplay:      l.remember,
		OnChange:      l.reassignSoon,
		Log:           d.process.Log,
		Registerer:    d.process.Registry,
	}
	if d.certs != nil {
		o.TLS = d.certs.Client(d.options.SamplerServerName)
	}
	l.pool = stream.NewPool(o)
	return l
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
	g.Go(func() error { l.requeueGathered(ctx); return nil })
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
