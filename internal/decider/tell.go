package decider

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/decide"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/kube"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// commitEvents are the reasons of events, by kind of commit.
var commitEvents = map[fence.CommitKind]string{
	fence.CommitUp:       kube.EventScaledUp,
	fence.CommitDown:     kube.EventScaledDown,
	fence.CommitRollback: kube.EventRolledBack,
	fence.CommitRestore:  kube.EventRestored,
	fence.CommitDonate:   kube.EventDonated,
	fence.CommitAcquire:  kube.EventAcquired,
}

// tell says to people what a pass did: events, one log line for each write, counters.
func (l *leader) tell(v *view, d decide.Decision, failed error, before, after []metav1.Condition) {
	if d.Adopted != nil { // whoever wrote it may have died before he told anybody
		l.log.Info("took over a decision that an earlier leader wrote", zap.Stringer("scaler", v.name), zap.String("why", d.Adopted.Why))
		l.emit(v, commitEvent(d.Adopted))
	}
	l.tellWrite(v, d, failed)
	for _, event := range worsened(before, after) {
		l.emit(v, event)
		l.log.Info("condition changed", zap.Stringer("scaler", v.name), zap.String("reason", event.Reason), zap.String("message", event.Note))
	}
}

func (l *leader) tellWrite(v *view, d decide.Decision, failed error) {
	kinds := kindsOf(d)
	if len(kinds) == 0 {
		return
	}
	for _, kind := range kinds {
		l.metrics.commits.WithLabelValues(kind, outcomeOf(failed)).Inc()
	}
	if failed != nil {
		l.tellFailure(v, failed)
		return
	}
	fields := []zap.Field{zap.Stringer("scaler", v.name), zap.Strings("kinds", kinds)}
	if d.Commit != nil {
		fields = append(fields, zap.String("decision", d.Commit.Decision.DecisionID), zap.Any("baseline", d.Commit.Baseline),
			zap.Any("vector", d.Commit.Decision.Vector), zap.String("why", d.Commit.Why), zap.Any("trace", d.Trace))
	}
	l.log.Info("wrote to target", fields...)
	for _, event := range writeEvents(v, d) {
		l.emit(v, event)
	}
}

// tellFailure tells what people can do something about; the failed pass is logged where it is tried again. A target that keeps
// moving and a lost Lease settle by themselves.
func (l *leader) tellFailure(v *view, failed error) {
	switch outcome := outcomeOf(failed); {
	case outcome == outcomeDenied || outcome == outcomeWithheld:
		l.emit(v, kube.Event{Warning: true, Reason: kube.EventWriteDenied, Action: kube.ActionPlan, Note: failed.Error()})
	case apierrors.IsConflict(failed) || apierrors.IsNotFound(failed) || errors.Is(failed, kube.ErrLeaseLost) || errors.Is(failed, context.Canceled):
	default:
		l.emit(v, kube.Event{Warning: true, Reason: kube.EventWriteFailed, Action: kube.ActionPlan, Note: failed.Error() + "; it is tried again"})
	}
}

// kindsOf names what a decision writes.
func kindsOf(d decide.Decision) (kinds []string) {
	if d.Bind != nil {
		kinds = append(kinds, "bind")
	}
	if d.Commit != nil {
		kinds = append(kinds, string(d.Commit.Kind))
	}
	if d.Release {
		kinds = append(kinds, "release")
	}
	return kinds
}

func outcomeOf(failed error) string {
	switch {
	case failed == nil:
		return outcomeDone
	case errors.As(failed, new(*fence.Refusal)):
		return outcomeWithheld
	case apierrors.IsForbidden(failed):
		return outcomeDenied
	}
	return outcomeFailed
}

func writeEvents(v *view, d decide.Decision) (events []kube.Event) {
	on := target.Kind + " " + v.in.Target.Name
	if d.Bind != nil {
		events = append(events, kube.Event{Reason: kube.EventBound, Action: kube.ActionBind,
			Note: fmt.Sprintf("replica counts of %s are now set by scaler %s (term %d)", on, v.name.Name, d.Bind.Term)})
	}
	if d.Release {
		events = append(events, kube.Event{Reason: kube.EventReleased, Action: kube.ActionBind,
			Note: fmt.Sprintf("replica counts of %s are no longer set by scaler %s; they stay as they are", on, v.name.Name)})
	}
	if d.Commit != nil {
		events = append(events, commitEvent(d.Commit))
	}
	return events
}

func commitEvent(c *decide.Commit) kube.Event {
	undone := c.Kind == fence.CommitRollback || c.Kind == fence.CommitRestore
	return kube.Event{Warning: undone, Reason: commitEvents[c.Kind], Action: kube.ActionCommit, Note: c.Why}
}

// bad says of which status a condition type is bad news.
var bad = map[string]metav1.ConditionStatus{
	workerv1.ConditionBound:        metav1.ConditionFalse,
	workerv1.ConditionMetricsReady: metav1.ConditionFalse,
	workerv1.ConditionBlocked:      metav1.ConditionTrue,
}

// quietReasons are bad only to the letter: somebody asked for it, or it is everyday pacing. Active says what Bound does.
var quietReasons = map[string]bool{
	workerv1.ReasonSuspended: true, workerv1.ReasonShadowMode: true, workerv1.ReasonPacingBounded: true,
}

// worsened makes an event of every condition that turned bad, or bad for another reason. A first report of readings that
// are still to come is none.
func worsened(before, after []metav1.Condition) (events []kube.Event) {
	for _, c := range after {
		was := meta.FindStatusCondition(before, c.Type)
		switch {
		case c.Status != bad[c.Type] || quietReasons[c.Reason]:
		case was != nil && was.Status == c.Status && was.Reason == c.Reason:
		case was == nil && c.Reason == workerv1.ReasonWaitingForMetrics:
		default:
			events = append(events, kube.Event{Warning: true, Reason: c.Reason, Action: kube.ActionPlan, Note: c.Message})
		}
	}
	return events
}

func (l *leader) emit(v *view, event kube.Event) {
	var on *target.Deployment
	if v.in.Target != nil {
		on = &v.in.Target.Deployment
	}
	l.events.Tell(v.name, types.UID(v.in.Scaler.UID), on, event)
}
