package decider

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/kube"
)

func (w *world) count() int32 { return w.live().Counts()["server"] }

func (w *world) binding() (fence.Binding, bool) {
	value, bound := w.live().Annotations[fence.BindingAnnotation]
	if !bound {
		return fence.Binding{}, false
	}
	b, err := fence.ParseBinding(value)
	require.NoError(w.t, err)
	return b, true
}

func (w *world) decision() fence.DecisionID {
	d, err := fence.ParseDecision(w.live().Annotations[fence.DecisionAnnotation])
	require.NoError(w.t, err)
	id, err := fence.ParseDecisionID(d.DecisionID)
	require.NoError(w.t, err)
	return id
}

func TestTheLifeOfAnActiveScaler(t *testing.T) {
	w := newWorld(t)
	w.sampler.load.Store(8)
	d := w.decide("decider")
	w.scale("s", workerv1.ModeActive)

	w.eventually("the target is bound", func() bool { _, bound := w.binding(); return bound })
	b, _ := w.binding()
	require.Equal(t, fence.Binding{ScalerName: "s", ScalerUID: string(w.scaler("s").UID), Term: 1}, b)
	require.Contains(t, w.scaler("s").Finalizers, kube.Finalizer)
	w.eventually("it is reported", func() bool {
		return w.condition("s", workerv1.ConditionBound) == "True/Bound" && w.condition("s", workerv1.ConditionMetricsReady) == "True/Observed"
	})

	w.sampler.load.Store(28)
	w.eventually("it grows", func() bool { return w.count() == 4 })
	w.eventually("the commit is in the status", func() bool {
		s := w.scaler("s").Status
		return s.LastCommit != nil && s.LastCommit.DecisionID == w.decision().String() && s.LastCommit.TargetGeneration == w.live().Generation
	})
	w.sampler.load.Store(14)
	w.eventually("it shrinks, one at a time", func() bool { return w.count() == 2 })
	require.Equal(t, fence.CommitDown, w.decision().Kind)
	w.eventually("everything is told in events", func() bool {
		seen := map[string]bool{}
		list, err := w.client.Core.EventsV1().Events(w.namespace).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		for _, e := range list.Items {
			seen[e.Regarding.Kind+"/"+e.Reason] = true
		}
		return seen["ModelDeployment/Bound"] && seen["ModelDeploymentScaler/ScaledUp"] && seen["ModelDeployment/ScaledDown"]
	})
	require.Equal(t, 1, int(gauge(t, d, "mds_decider_leader")))
	w.eventually("it is measured", func() bool { return int(gauge(t, d, "mds_decider_current_replicas")) == 2 })

	w.patchScaler("s", `{"spec":{"suspend":true}}`)
	w.eventually("the binding is released", func() bool { _, bound := w.binding(); return !bound })
	w.eventually("it is reported", func() bool { return w.condition("s", workerv1.ConditionBound) == "False/Suspended" })
	w.patchScaler("s", `{"spec":{"suspend":false}}`)
	w.eventually("it is bound under the next term", func() bool { b, bound := w.binding(); return bound && b.Term == 2 })

	require.NoError(t, w.client.Scalers(w.namespace).Delete(t.Context(), "s", metav1.DeleteOptions{}))
	w.eventually("the scaler is gone", func() bool {
		_, err := w.client.Scalers(w.namespace).Get(t.Context(), "s", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	_, bound := w.binding()
	require.False(t, bound)
	require.Equal(t, int32(2), w.count())
	w.eventually("and so are its series", func() bool {
		n, err := testutil.GatherAndCount(d.registry, "mds_decider_current_replicas")
		return err == nil && n == 0
	})
	problems, err := testutil.GatherAndLint(d.registry)
	require.NoError(t, err)
	require.Empty(t, ours(problems))
	require.NoError(t, d.end(t))
}

// ours leaves out what the linter says of other people's metrics.
func ours(problems []promlint.Problem) (list []promlint.Problem) {
	for _, p := range problems {
		if len(p.Metric) > 12 && p.Metric[:12] == "mds_decider_" {
			list = append(list, p)
		}
	}
	return list
}

// counter of the only label's value; 0 when it was never counted.
func counter(t *testing.T, r *running, name, label string) float64 {
	t.Helper()
	families, err := r.registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == label {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func gauge(t *testing.T, r *running, name string) float64 {
	t.Helper()
	families, err := r.registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	require.FailNow(t, "no such metric", name)
	return 0
}

func TestAShadowScalerRecommendsAndWritesNothing(t *testing.T) {
	w := newWorld(t)
	w.sampler.load.Store(28)
	before := w.live()
	w.decide("decider")
	w.scale("s", workerv1.ModeShadow)
	w.eventually("it recommends", func() bool {
		s := w.scaler("s").Status
		return len(s.Roles) == 1 && s.Roles[0].RawRecommendedReplicas == 4
	})
	require.Equal(t, "False/ShadowMode", w.condition("s", workerv1.ConditionActive))
	require.Equal(t, before.ResourceVersion, w.live().ResourceVersion)
}

func TestASecondScalerSaysAlreadyBound(t *testing.T) {
	w := newWorld(t)
	w.sampler.load.Store(8)
	w.decide("decider")
	w.scale("first", workerv1.ModeActive)
	w.eventually("the first binds", func() bool { return w.condition("first", workerv1.ConditionBound) == "True/Bound" })
	w.scale("second", workerv1.ModeActive)
	w.eventually("the second does not", func() bool { return w.condition("second", workerv1.ConditionBound) == "False/AlreadyBound" })
	b, _ := w.binding()
	require.Equal(t, "first", b.ScalerName)
}

func TestAScalerThatComesBeforeItsTargetBindsItWhenItAppears(t *testing.T) {
	w := newWorld(t)
	w.sampler.load.Store(8)
	require.NoError(t, w.client.Targets(w.namespace).Delete(t.Context(), "md", metav1.DeleteOptions{}))
	w.decide("decider")
	w.scale("s", workerv1.ModeActive)
	w.eventually("it says so", func() bool { return w.condition("s", workerv1.ConditionBound) == "False/TargetNotFound" })
	w.createTarget()
	w.eventually("it binds", func() bool { _, bound := w.binding(); return bound })
}

func TestAStandbyGoesOnWhereTheLeaderStopped(t *testing.T) {
	w := newWorld(t)
	w.sampler.load.Store(28)
	first := w.decide("first")
	w.scale("s", workerv1.ModeActive)
	w.eventually("the first scales", func() bool { return w.count() == 4 })
	second := w.decide("second")
	w.eventually("the commit is in the status", func() bool {
		s := w.scaler("s").Status
		return s.LastCommit != nil && s.LastCommit.DecisionID == w.decision().String()
	})
	before := w.decision()
	quiet := w.scaler("s")
	require.NoError(t, first.end(t))

	w.sampler.load.Store(44)
	w.eventually("the second scales", func() bool { return w.count() == 6 })
	after := w.decision()
	require.NotEqual(t, before.Epoch, after.Epoch)
	require.Greater(t, after.Sequence, before.Sequence)
	b, _ := w.binding()
	require.Equal(t, int64(1), b.Term, "a change of leader does not change the term")
	for _, c := range w.scaler("s").Status.Conditions {
		for _, was := range quiet.Status.Conditions {
			if c.Type == was.Type && c.Type != workerv1.ConditionBlocked {
				require.Equal(t, was.LastTransitionTime, c.LastTransitionTime, "%s moved at the fail-over", c.Type)
			}
		}
	}
	require.NoError(t, second.end(t))
}

func TestADecisionThatACrashedLeaderDidNotReportIsAdopted(t *testing.T) {
	w := newWorld(t)
	w.sampler.load.Store(28)
	first := w.decide("first")
	w.scale("s", workerv1.ModeActive)
	w.eventually("the first scales and reports", func() bool {
		s := w.scaler("s").Status
		return w.count() == 4 && s.LastCommit != nil && s.LastCommit.Vector["server"] == 4
	})
	require.NoError(t, first.end(t))
	// What the crashed leader did last: the target is written, the status is not.
	before := w.live()
	id := fence.DecisionID{Epoch: w.decision().Epoch, Sequence: w.decision().Sequence + 1, Kind: fence.CommitUp}
	lost := fence.Decision{DecisionID: id.String(), Term: 1, Vector: map[string]int32{"server": 5}}
	writer := kube.NewWriter(w.client, heldLease{}, w.epoch())
	_, err := writer.Commit(t.Context(), before, kube.Change{Decision: &lost})
	require.NoError(t, err)

	w.decide("second")
	w.eventually("the decision is adopted", func() bool {
		s := w.scaler("s").Status
		return s.LastCommit != nil && s.LastCommit.DecisionID == lost.DecisionID
	})
	commit := w.scaler("s").Status.LastCommit
	require.Equal(t, workerv1.Vector{"server": 5}, commit.Vector)
	require.Equal(t, workerv1.Vector{"server": 4}, commit.BaselineVector)
	w.eventually("people hear of it", func() bool {
		list, err := w.client.Core.EventsV1().Events(w.namespace).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Reason == kube.EventScaledUp && e.Note == fmt.Sprintf("up: server from 4 to 5 (decision %s of an earlier leader)", lost.DecisionID)
		})
	})
}

// heldLease is the Lease of somebody who is not asked.
type heldLease struct{}

func (heldLease) Write(ctx context.Context) (context.Context, context.CancelFunc, error) {
	ctx, cancel := context.WithTimeout(ctx, enough)
	return ctx, cancel, nil
}

func (w *world) epoch() fence.Epoch {
	lease, err := w.client.Core.CoordinationV1().Leases(w.namespace).Get(w.t.Context(), "decider", metav1.GetOptions{})
	require.NoError(w.t, err)
	return fence.Epoch{LeaseUID: string(lease.UID), Transitions: int64(*lease.Spec.LeaseTransitions)}
}

func TestCommitsGetThroughWhileSomebodyWritesToTheTargetAllTheTime(t *testing.T) {
	w := newWorld(t)
	w.sampler.load.Store(28)
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	writers.Go(func() {
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/count":"%d"}}}`, i)
			_, _ = w.client.Targets(w.namespace).Patch(ctx, "md", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		}
	})
	defer writers.Wait()
	defer cancel()
	w.decide("decider")
	w.scale("s", workerv1.ModeActive)
	w.eventually("it grows", func() bool { return w.count() == 4 })
	require.NotEmpty(t, w.live().Annotations["example.com/count"])
}

func TestALostLeaseEndsTheProcessWithAnError(t *testing.T) {
	w := newWorld(t)
	w.sampler.load.Store(8)
	d := w.decide("decider")
	w.scale("s", workerv1.ModeActive)
	w.eventually("it leads", func() bool { _, bound := w.binding(); return bound })
	require.NoError(t, w.client.Core.CoordinationV1().Leases(w.namespace).Delete(t.Context(), "decider", metav1.DeleteOptions{}))
	select {
	case err := <-d.ended:
		d.ended <- err
		require.ErrorIs(t, err, kube.ErrLeaseLost)
	case <-time.After(enough):
		require.FailNow(t, "it went on")
	}
}

func TestASteadyScalerWritesNothing(t *testing.T) {
	w := newWorld(t)
	w.sampler.load.Store(8)
	d := w.decide("decider")
	w.scale("s", workerv1.ModeActive)
	w.eventually("it is settled", func() bool { return w.condition("s", workerv1.ConditionMetricsReady) == "True/Observed" })
	passes := func() float64 { return counter(t, d, "mds_decider_passes_total", "ok") }
	settled := passes() + 1
	w.eventually("another pass ran", func() bool { return passes() >= settled })
	scaler, deployment := w.scaler("s").ResourceVersion, w.live().ResourceVersion
	w.eventually("more passes ran", func() bool { return passes() >= settled+2 })
	require.Equal(t, scaler, w.scaler("s").ResourceVersion)
	require.Equal(t, deployment, w.live().ResourceVersion)
}
