package decider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/decide"
	"gpustack.ai/model-deployment-scaler/internal/kube"
)

// errStatusMoved asks for another pass: what was planned on was not what the last leader left.
var errStatusMoved = errors.New("the stored status is newer than the one that was planned on")

// report remembers the pass and tells of it: memory, metrics, log, events, and the status when there is something to say
// (D36). failed is what the commit came back with.
func (l *leader) report(ctx context.Context, v *view, d decide.Decision, outcome decide.Outcome, failed error) error {
	next := d.Settle(outcome)
	l.tell(v, d, failed, v.in.State.Conditions, next.Conditions)
	l.metrics.observePass(v, next)
	l.view.Publish(l.shown(v, d, outcome))
	if !v.memory.planned && v.memory.stored.ObservedGeneration != 0 {
		l.metrics.takeover.Observe(time.Since(l.started).Seconds())
	}
	v.memory.state, v.memory.planned = next.Pack(), true
	if err := l.store(ctx, v, d, outcome, next); err != nil {
		return err
	}
	v.memory.settled.Store(true)
	if v.in.Target != nil && !l.awaitsPast(targetOf(v.scaler)) {
		l.readings.dropPast(v.in.Target)
	}
	return nil
}

// store writes the status when there is something to say; of a scaler that goes, it lets go.
func (l *leader) store(ctx context.Context, v *view, d decide.Decision, outcome decide.Outcome, next decide.State) error {
	if v.in.Scaler.Deleting {
		return l.letGo(ctx, v, d, outcome)
	}
	v.memory.unsaved = v.memory.unsaved || outcome.Written && d.Commit != nil
	if !v.memory.unsaved && !decide.NeedsWrite(v.memory.stored, next.Brief().Status(), l.sinceStored(v.memory)) {
		return nil
	}
	return l.save(ctx, v.memory, v.scaler, next.Status())
}

// letGo removes the finalizer of a deleted scaler once no binding of its own is left (D46).
func (l *leader) letGo(ctx context.Context, v *view, d decide.Decision, outcome decide.Outcome) error {
	if d.Release && !outcome.Written {
		return nil // the error that kept it is reported by the pass, which is tried again
	}
	return l.writer.RemoveFinalizer(ctx, v.memory.newest(v.scaler))
}

// save writes the status. A conflict is tried once more on the live scaler: an edit of its spec or labels is no reason to
// withhold a report. But when nothing was stored yet by this leader and the status itself has moved, memory began with an
// outdated one: it is restored anew, and what was written meanwhile is found on the target and adopted (D33).
func (l *leader) save(ctx context.Context, m *memory, scaler *workerv1.ModelDeploymentScaler, status workerv1.ModelDeploymentScalerStatus) error {
	written, err := l.writer.WriteStatus(ctx, m.newest(scaler), status)
	if apierrors.IsConflict(err) {
		var live *workerv1.ModelDeploymentScaler
		if live, err = l.cache.ScalerLive(ctx, nameOf(scaler)); err != nil {
			return err
		}
		if live == nil || live.UID != m.uid {
			return nil // gone; the next pass forgets it
		}
		if m.storedAt.IsZero() && !equality.Semantic.DeepEqual(kube.WithoutHistories(live.Status), m.stored) {
			m.restore(live)
			return fmt.Errorf("writing status of scaler %s: %w", nameOf(scaler), errStatusMoved)
		}
		written, err = l.writer.WriteStatus(ctx, live, status)
	}
	if apierrors.IsNotFound(err) {
		return nil // gone; the next pass forgets it
	}
	if err != nil {
		return err
	}
	m.wrote(written)
	m.stored, m.storedAt, m.unsaved = kube.WithoutHistories(status), l.clock.now(), false
	return nil
}

// forget drops everything that is kept of a scaler that is gone.
func (l *leader) forget(name types.NamespacedName) {
	l.schedule.forget(name)
	l.metrics.forget(name)
	l.events.Forget(name)
	l.view.Forget(name.Namespace, name.Name)
	if l.memories.forget(name) {
		l.log.Info("scaler is gone", zap.Stringer("scaler", name))
	}
}

func nameOf(s *workerv1.ModelDeploymentScaler) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}

func targetOf(s *workerv1.ModelDeploymentScaler) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Spec.TargetRef.Name}
}

// sinceStored is how long ago the status was written; before the first write of this leader, since it began to lead.
func (l *leader) sinceStored(m *memory) time.Duration {
	last := m.storedAt
	if last.IsZero() {
		last = l.began
	}
	return l.clock.now().Sub(last)
}
