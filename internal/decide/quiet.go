package decide

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

// quietFor is how long a change of a role's recommendation, state or reason alone may wait for its write (D36).
const quietFor = time.Minute

// NeedsWrite says whether next is to be written over prev (D36): at once when the control plane moved (a condition, the
// binding, a decision, a recovery record, a role's current or ready count), within a minute when only a role's recommendation,
// signal state or reason did, and never because a time, a rate or a window moved.
func NeedsWrite(prev, next workerv1.ModelDeploymentScalerStatus, sinceLastWrite time.Duration) bool {
	return moved(&prev, &next) || sinceLastWrite >= quietFor && drifted(&prev, &next)
}

func moved(prev, next *workerv1.ModelDeploymentScalerStatus) bool {
	return prev.ObservedGeneration != next.ObservedGeneration ||
		conditionsMoved(prev.Conditions, next.Conditions) ||
		countsMoved(prev.Roles, next.Roles) ||
		!equality.Semantic.DeepEqual(prev.Binding, next.Binding) ||
		!equality.Semantic.DeepEqual(prev.LastCommit, next.LastCommit) ||
		!equality.Semantic.DeepEqual(prev.PendingCohort, next.PendingCohort) ||
		!equality.Semantic.DeepEqual(prev.LastScaleDown, next.LastScaleDown) ||
		!equality.Semantic.DeepEqual(prev.Rebalance, next.Rebalance) ||
		!equality.Semantic.DeepEqual(prev.Exhaustion, next.Exhaustion)
}

// conditionsMoved compares what a condition says, not how it words it: messages may carry names that change with every pass.
func conditionsMoved(prev, next []metav1.Condition) bool {
	if len(prev) != len(next) {
		return true
	}
	for i := range next {
		n := &next[i]
		p := findCondition(prev, n.Type)
		if p == nil || p.Status != n.Status || p.Reason != n.Reason || p.ObservedGeneration != n.ObservedGeneration {
			return true
		}
	}
	return false
}

func countsMoved(prev, next []workerv1.RoleStatus) bool {
	if len(prev) != len(next) {
		return true
	}
	for i := range next {
		p, n := &prev[i], &next[i]
		if p.Name != n.Name || p.CurrentReplicas != n.CurrentReplicas || p.ReadyReplicas != n.ReadyReplicas {
			return true
		}
	}
	return false
}

// drifted assumes the same roles in the same order: otherwise the counts moved.
func drifted(prev, next *workerv1.ModelDeploymentScalerStatus) bool {
	for i := range next.Roles {
		p, n := &prev.Roles[i], &next.Roles[i]
		if p.RawRecommendedReplicas != n.RawRecommendedReplicas || p.ConstrainedReplicas != n.ConstrainedReplicas ||
			p.SignalState != n.SignalState || p.Reason != n.Reason || panicking(p) != panicking(n) {
			return true
		}
	}
	for i := range next.Conditions {
		if p := findCondition(prev.Conditions, next.Conditions[i].Type); p != nil && p.Message != next.Conditions[i].Message {
			return true
		}
	}
	return false
}

func panicking(r *workerv1.RoleStatus) bool { return r.PanicUntil != nil }
