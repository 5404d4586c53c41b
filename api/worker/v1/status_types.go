package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ModelDeploymentScalerStatus reports observations and decisions, and is the scaler's durable memory.
//
// It is written when something moved (a decision, the binding, a condition, a count), not in every pass: rates and windows
// in it are a snapshot.
type ModelDeploymentScalerStatus struct {
	// observedGeneration is the generation of the spec that this report is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// binding is the target this scaler knows, and the term under which it commits.
	// +optional
	Binding *BindingStatus `json:"binding,omitempty"`

	// roles reports each role of the target: counts, signals, recommendation and the reason.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Roles []RoleStatus `json:"roles,omitempty"`

	// lastCommit is the latest write of replica counts.
	// +optional
	LastCommit *CommitStatus `json:"lastCommit,omitempty"`

	// pendingCohort is a growth whose replicas are not all admitted yet; it is taken back as a whole on timeout.
	// +optional
	PendingCohort *PendingCohort `json:"pendingCohort,omitempty"`

	// rebalance is a running or just attempted transfer of capacity between two roles.
	// +optional
	Rebalance *RebalanceStatus `json:"rebalance,omitempty"`

	// lastScaleDown is the latest removal and how it ended.
	// +optional
	LastScaleDown *ScaleDownStatus `json:"lastScaleDown,omitempty"`

	// exhaustion is present while growth is held back because the cluster had no room (an exhaustion episode).
	// +optional
	Exhaustion *ExhaustionStatus `json:"exhaustion,omitempty"`

	// predictors hold the demand history of the token algorithms, and the filter of Predictive, by role.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Predictors []PredictorStatus `json:"predictors,omitempty"`

	// conditions are Bound (the target is available to this scaler), Active (it may commit), MetricsReady (signals are
	// complete) and Blocked (something holds the recommendation back). The observedGeneration of each says which spec it is
	// about.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// BindingStatus identifies the target and the term.
type BindingStatus struct {
	// targetUID distinguishes a deployment from a later one with the same name.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	TargetUID string `json:"targetUID,omitempty"`

	// targetName is the deployment's name.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	TargetName string `json:"targetName,omitempty"`

	// term counts the bindings of the target, from 1, and never falls; commits carry it. Absent as long as nothing was bound
	// (Shadow).
	// +kubebuilder:validation:Minimum=1
	// +optional
	Term int64 `json:"term,omitempty"`
}

// SignalState says how far the readings of a role can be used.
// +kubebuilder:validation:Enum=Fresh;Idle;Missing;Stale
type SignalState string

// RoleStatus is what is known of one role and recommended for it.
type RoleStatus struct {
	// name of the role.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`

	// currentReplicas is the desired count on the target.
	// +optional
	CurrentReplicas int32 `json:"currentReplicas"`

	// readyReplicas are the ready serving replicas: the capacity that recommendations are computed with.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// signalState is Fresh (current readings), Idle (observed, no work), Missing (no usable signal, or no rate yet) or Stale
	// (too old).
	// +optional
	SignalState SignalState `json:"signalState,omitempty"`

	// promptTokensPerSecond is the rate of cache-missed prompt tokens, summed over the sampled replicas. Absent when not known.
	// +optional
	PromptTokensPerSecond *resource.Quantity `json:"promptTokensPerSecond,omitempty"`

	// generationTokensPerSecond is the rate of generated tokens, summed over the sampled replicas. Absent when not known.
	// +optional
	GenerationTokensPerSecond *resource.Quantity `json:"generationTokensPerSecond,omitempty"`

	// runningRequests is the number of requests in work, summed over the sampled replicas. Absent when not known.
	// +optional
	RunningRequests *int64 `json:"runningRequests,omitempty"`

	// waitingRequests is the number of requests in queues, summed over the sampled replicas; for Decode it includes those that
	// wait for their KV cache to arrive. Absent when not known.
	// +optional
	WaitingRequests *int64 `json:"waitingRequests,omitempty"`

	// kvCacheUsage is the fraction of KV cache in use, 0 to 1, averaged over the sampled replicas. Absent when not known.
	// +optional
	KVCacheUsage *resource.Quantity `json:"kvCacheUsage,omitempty"`

	// ttftMilliseconds is the time to first token (p95, else the mean). Absent when not known.
	// +optional
	TTFTMilliseconds *resource.Quantity `json:"ttftMilliseconds,omitempty"`

	// itlMilliseconds is the inter-token latency (p95, else the mean). Absent when not known.
	// +optional
	ITLMilliseconds *resource.Quantity `json:"itlMilliseconds,omitempty"`

	// rawRecommendedReplicas is the count that the algorithm computed.
	// +optional
	RawRecommendedReplicas int32 `json:"rawRecommendedReplicas,omitempty"`

	// constrainedReplicas is what is left of rawRecommendedReplicas after windows, steps, bounds, guards and ratios.
	// +optional
	ConstrainedReplicas int32 `json:"constrainedReplicas,omitempty"`

	// reason names the algorithm's decision (such as WithinTolerance, Panic, LatencyGuardHold, PredictorWarmingUp) or the first
	// constraint that changed it (PacingBounded, ResourceExhausted, RatioCoupled).
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Reason string `json:"reason,omitempty"`

	// lastScaleUpTime is when the role last grew.
	// +optional
	LastScaleUpTime *metav1.Time `json:"lastScaleUpTime,omitempty"`

	// panicUntil is when a running panic ends, unless the burst condition is met again.
	// +optional
	PanicUntil *metav1.Time `json:"panicUntil,omitempty"`

	// stabilizationHistory holds recent recommendations for the two stabilization windows, oldest first; at most 256.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +optional
	StabilizationHistory []Recommendation `json:"stabilizationHistory,omitempty"`
}

// Recommendation is one entry of a stabilization history.
type Recommendation struct {
	// timestamp of the pass.
	// +required
	Timestamp metav1.Time `json:"timestamp"`

	// replicas recommended.
	// +required
	Replicas int32 `json:"replicas"`
}
