package decider

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/kube"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/stream/observations"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// budgetLease allows so many writes more.
type budgetLease struct{ left atomic.Int64 }

func (l *budgetLease) Write(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if l.left.Add(-1) < 0 {
		return nil, nil, kube.ErrLeaseLost
	}
	return heldLease{}.Write(ctx)
}

// handLeader is a leader whose passes the test runs by hand.
type handLeader struct {
	*leader
	w     *world
	lease *budgetLease
	name  types.NamespacedName
	// silence ends the watches: the caches stay as they are.
	silence func()
}

const plenty = 1000

func (w *world) handLeader(scaler string) *handLeader {
	w.t.Helper()
	log := zaptest.NewLogger(w.t, zaptest.Level(zap.WarnLevel))
	cache, err := kube.NewCache(w.client, kube.CacheOptions{Namespace: w.namespace, WorkloadPoll: time.Minute, Log: log})
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cache.Run(ctx) }()
	silence := func() { cancel(); <-ended }
	w.t.Cleanup(silence)
	require.True(w.t, cache.WaitForSync(ctx))
	events, err := kube.NewEvents(ctx, w.client)
	require.NoError(w.t, err)
	lease, epoch := &budgetLease{}, fence.Epoch{LeaseUID: "abcdef01", Transitions: 3}
	lease.left.Store(plenty)
	l := &leader{
		cache: cache, writer: kube.NewWriter(w.client, lease, epoch), events: events, metrics: newMetrics(prometheus.NewRegistry()),
		log: log, clock: newClock(), epoch: epoch, readings: newReadings(), schedule: newSchedule(nil), memories: newMemories(),
		view: observations.NewView(prometheus.NewCounter(prometheus.CounterOpts{})),
	}
	w.eventually("the scaler and its instance are in view", func() bool {
		s, err := cache.Snapshot(types.NamespacedName{Namespace: w.namespace, Name: "md"})
		return err == nil && s != nil && target.Ready(s.Instances, "server") > 0 &&
			cache.Scaler(types.NamespacedName{Namespace: w.namespace, Name: scaler}) != nil
	})
	return &handLeader{leader: l, w: w, lease: lease, name: types.NamespacedName{Namespace: w.namespace, Name: scaler}, silence: silence}
}

// see makes a complete observation of so many requests the latest.
func (l *handLeader) see(requests float64) {
	l.w.t.Helper()
	require.True(l.w.t, l.readings.put("shard", l.complete(requests), time.Now()))
}

// complete is a complete observation of the target's role, which is wanted from then on.
func (l *handLeader) complete(requests float64) observe.RoleObservation {
	l.w.t.Helper()
	s, err := l.cache.Snapshot(types.NamespacedName{Namespace: l.w.namespace, Name: "md"})
	require.NoError(l.w.t, err)
	key := keyOf(s, "server")
	n := target.Ready(s.Instances, "server")
	l.readings.retain(deploymentOf(key), []observe.Assignment{{Key: key}})
	return observe.RoleObservation{
		Key: key, Kind: observe.Server, Engine: observe.VLLM, Start: time.Now(), Interval: 5 * time.Second, Span: 5 * time.Second,
		Coverage: observe.Coverage{ReadyReplicas: n, Targets: n, Selected: n, Answered: n, Rated: n},
		State:    observe.Fresh, Running: observe.Known(requests), Waiting: observe.Known(0),
		Prompt: observe.Known(1), RawPrompt: observe.Known(1), Generation: observe.Known(1), KVCacheUsage: observe.Known(0),
	}
}

func (l *handLeader) turn() error {
	_, err := l.pass(l.w.t.Context(), l.name)
	return err
}

func TestNothingIsWrittenToTheTargetUntilTheStatusOfTheLastCommitIsStored(t *testing.T) {
	w := newWorld(t)
	w.scale("s", workerv1.ModeActive)
	l := w.handLeader("s")
	l.see(28)
	l.lease.left.Store(2) // the finalizer and the target, not the status
	require.ErrorIs(t, l.turn(), kube.ErrLeaseLost)
	require.Equal(t, int32(4), w.count())
	require.Nil(t, w.scaler("s").Status.LastCommit)

	w.eventually("the commit is in view", func() bool {
		s, err := l.cache.Snapshot(types.NamespacedName{Namespace: w.namespace, Name: "md"})
		return err == nil && target.Ready(s.Instances, "server") == 4
	})
	l.see(44)
	require.ErrorIs(t, l.turn(), kube.ErrLeaseLost)
	require.Equal(t, int32(4), w.count())

	l.lease.left.Store(plenty)
	require.NoError(t, l.turn())
	require.Equal(t, int32(4), w.count(), "the pass that settles the debt plans nothing")
	require.Equal(t, w.decision().String(), w.scaler("s").Status.LastCommit.DecisionID)
	require.NoError(t, l.turn())
	require.Equal(t, int32(6), w.count())
}

// Watches may be silent for long without an error.
func TestASuspensionThatNoWatchTellsOfStopsTheNextCommit(t *testing.T) {
	w := newWorld(t)
	w.scale("s", workerv1.ModeActive)
	l := w.handLeader("s")
	l.see(8)
	require.NoError(t, l.turn())
	before := w.count()
	w.eventually("the binding is in view", func() bool {
		s, err := l.cache.Snapshot(types.NamespacedName{Namespace: w.namespace, Name: "md"})
		return err == nil && s.Annotations[fence.BindingAnnotation] != ""
	})
	l.silence()

	w.patchScaler("s", `{"spec":{"suspend":true}}`)
	l.see(44)
	require.NoError(t, l.turn())
	require.Equal(t, before, w.count())
	require.Equal(t, "False/Suspended", w.condition("s", workerv1.ConditionBound))
	require.NotContains(t, w.live().Annotations, fence.BindingAnnotation)
}

func TestAFinalizerThatSomebodyDroppedIsPutBackWhileTheBindingStands(t *testing.T) {
	w := newWorld(t)
	w.scale("s", workerv1.ModeActive)
	l := w.handLeader("s")
	l.see(8)
	require.NoError(t, l.turn())
	require.Contains(t, w.scaler("s").Finalizers, kube.Finalizer)

	w.patchScaler("s", `{"metadata":{"finalizers":null}}`) // as kubectl replace does
	w.eventually("it is in view", func() bool { return len(l.cache.Scaler(l.name).Finalizers) == 0 })
	l.see(8)
	require.NoError(t, l.turn())
	require.Contains(t, w.scaler("s").Finalizers, kube.Finalizer)

	w.patchScaler("s", `{"spec":{"mode":"Shadow"},"metadata":{"finalizers":null}}`)
	w.eventually("it is in view", func() bool { return l.cache.Scaler(l.name).Spec.Mode == workerv1.ModeShadow })
	l.see(8)
	require.NoError(t, l.turn())
	require.Empty(t, w.scaler("s").Finalizers, "what owns no binding has none to release")
}

func TestANewLeaderBeginsWithTheHistoryThatSamplersReplay(t *testing.T) {
	w := newWorld(t)
	w.scale("s", workerv1.ModeActive)
	l := w.handLeader("s")
	l.replayed()
	l.see(8)
	require.NoError(t, l.turn())
	require.Len(t, l.memories.byName[l.name].state.State().Roles[0].History, 13)
	require.Empty(t, l.readings.past)

	l.replayed()
	require.Empty(t, l.readings.past, "a scaler that is planned needs no history")
}

func TestMemoryThatBeganWithAnOutdatedStatusBeginsAnew(t *testing.T) {
	w := newWorld(t)
	w.scale("s", workerv1.ModeActive)
	outdated := w.scaler("s")
	l := w.handLeader("s")
	left := outdated.Status.DeepCopy()
	left.ObservedGeneration = 1
	left.Binding = &workerv1.BindingStatus{TargetUID: "uid", TargetName: "md", Term: 7}
	_, err := l.writer.WriteStatus(t.Context(), outdated, *left)
	require.NoError(t, err)

	m := l.memories.of(l.name, outdated)
	require.ErrorIs(t, l.save(t.Context(), m, outdated, workerv1.ModelDeploymentScalerStatus{ObservedGeneration: 1}), errStatusMoved)
	require.Equal(t, int64(7), m.state.State().Binding.Term)
	require.Equal(t, int64(7), w.scaler("s").Status.Binding.Term)
}

func TestMemoryBeginsAnewWhileObservationsAskForIt(t *testing.T) { // of interest to the race detector
	s := &workerv1.ModelDeploymentScaler{ObjectMeta: metav1.ObjectMeta{UID: "uid"}}
	memories, name := newMemories(), types.NamespacedName{Name: "s"}
	m := memories.of(name, s)
	var asking sync.WaitGroup
	asking.Go(func() { _ = memories.has(name, "uid") })
	m.restore(s)
	asking.Wait()
	require.True(t, memories.has(name, "uid"))
}

func TestAnEditOfTheSpecDoesNotWithholdAReport(t *testing.T) {
	w := newWorld(t)
	w.scale("s", workerv1.ModeActive)
	before := w.scaler("s")
	l := w.handLeader("s")
	w.patchScaler("s", `{"metadata":{"labels":{"edited":"yes"}}}`)
	m := l.memories.of(l.name, before)
	require.NoError(t, l.save(t.Context(), m, before, workerv1.ModelDeploymentScalerStatus{ObservedGeneration: 1}))
	require.Equal(t, int64(1), w.scaler("s").Status.ObservedGeneration)
	require.Equal(t, w.scaler("s").ResourceVersion, m.latest.ResourceVersion)
}

// endless notes requests that no deadline bounds; a watch has none by its nature.
type endless struct {
	http.RoundTripper
	seen *atomic.Int64
}

func (e endless) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, bounded := r.Context().Deadline(); !bounded {
		e.seen.Add(1)
	}
	return e.RoundTripper.RoundTrip(r)
}

func TestEveryRequestOfAReportHasADeadline(t *testing.T) {
	w := newWorld(t)
	w.scale("s", workerv1.ModeActive)
	before := w.scaler("s")
	w.patchScaler("s", `{"metadata":{"labels":{"edited":"yes"}}}`)
	l := w.handLeader("s")

	var unbounded atomic.Int64
	config := w.cluster.Config(t)
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return endless{rt, &unbounded} })
	client, err := kube.NewClient(t.Context(), config, "")
	require.NoError(t, err)
	l.cache, err = kube.NewCache(client, kube.CacheOptions{Log: zap.NewNop()})
	require.NoError(t, err)
	l.writer = kube.NewWriter(client, l.lease, l.epoch)

	require.NoError(t, l.save(t.Context(), l.memories.of(l.name, before), before, workerv1.ModelDeploymentScalerStatus{ObservedGeneration: 1}))
	require.Equal(t, int64(1), w.scaler("s").Status.ObservedGeneration)
	require.Zero(t, unbounded.Load())
}

func TestAReportOnAScalerThatIsGoneIsNoFailure(t *testing.T) {
	w := newWorld(t)
	w.scale("s", workerv1.ModeActive)
	before := w.scaler("s")
	l := w.handLeader("s")
	m := l.memories.of(l.name, before)
	require.NoError(t, w.client.Scalers(w.namespace).Delete(t.Context(), "s", metav1.DeleteOptions{}))
	require.NoError(t, l.save(t.Context(), m, before, before.Status))
	w.scale("s", workerv1.ModeActive)
	require.NoError(t, l.save(t.Context(), m, before, before.Status), "nor on one that was made anew")
	require.Zero(t, w.scaler("s").Status.ObservedGeneration)
}

func TestAPassThatPanicsIsAFailureOfOneScaler(t *testing.T) {
	core, logs := observer.New(zap.ErrorLevel)
	l := &leader{log: zap.New(core), metrics: newMetrics(prometheus.NewRegistry()), schedule: newSchedule(nil), gathered: make(chan struct{})}
	close(l.gathered) // and there is no cache
	name := types.NamespacedName{Namespace: "ns", Name: "s"}
	l.schedule.force(name)
	l.turn(t.Context(), name)
	require.Equal(t, 1, l.schedule.timings[name].failures, "it is tried again, later")
	require.Equal(t, 1, logs.FilterField(zap.Stringer("scaler", name)).Len())
	l.schedule.queue.ShutDown()
}

func TestAScalerThatIsGoneLeavesNothingBehind(t *testing.T) {
	w := newWorld(t)
	w.scale("s", workerv1.ModeActive)
	l := w.handLeader("s")
	l.see(28)
	l.schedule.force(l.name)
	require.NoError(t, l.turn())
	require.NoError(t, w.client.Scalers(w.namespace).Delete(t.Context(), "s", metav1.DeleteOptions{}))
	w.eventually("the deletion is in view", func() bool { s := l.cache.Scaler(l.name); return s != nil && s.DeletionTimestamp != nil })
	require.NoError(t, l.turn())
	_, bound := w.binding()
	require.False(t, bound)
	w.eventually("it is gone", func() bool { return l.cache.Scaler(l.name) == nil })
	require.NoError(t, l.turn())
	require.Empty(t, l.memories.byName)
	require.Empty(t, l.schedule.timings)
	series := make(chan prometheus.Metric, 100)
	l.metrics.current.Collect(series)
	require.Empty(t, series)
}

func TestTheTimeOfATakeoverIsThatOfWhatAnEarlierLeaderReported(t *testing.T) {
	w := newWorld(t)
	w.scale("s", workerv1.ModeShadow)
	takeovers := func(l *handLeader) uint64 {
		m := &dto.Metric{}
		require.NoError(t, l.metrics.takeover.Write(m))
		return m.GetHistogram().GetSampleCount()
	}
	first := w.handLeader("s")
	first.see(8)
	require.NoError(t, first.turn())
	require.Zero(t, takeovers(first), "it is the first to see the scaler")

	next := w.handLeader("s")
	w.eventually("the report of the first is in view", func() bool { return next.cache.Scaler(next.name).Status.ObservedGeneration != 0 })
	for range 2 {
		next.see(8)
		require.NoError(t, next.turn())
	}
	require.EqualValues(t, 1, takeovers(next))
}
