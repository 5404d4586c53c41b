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

	// roles reports each role: counts, signals, recommendation and the reason.
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
	// complete) and Blocked (something holds the recommendation back).
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

	// term counts the bindings of the target; commits carry it. Absent as long as nothing was bound (Shadow).
	// +kubebuilder:validation:Minimum=1
	// +optional
	Term int64 `json:"term,omitempty"`
}

// SignalState says how far the readings of a role can be used.
// +kubebuilder:validation:Enum=Fresh;Idle;Missing;Stale
type SignalState string

// RoleStatus is what is known and recommended for one role.
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

	// signalState is Fresh, Idle (observed, no work), Missing (no usable signal) or Stale (too old).
	// +optional
	SignalState SignalState `json:"signalState,omitempty"`

	// promptTokensPerSecond is the cache-missed prompt rate over the sampled replicas. Absent when not known.
	// +optional
	PromptTokensPerSecond *resource.Quantity `json:"promptTokensPerSecond,omitempty"`

	// generationTokensPerSecond is the generation rate over the sampled replicas. Absent when not known.
	// +optional
	GenerationTokensPerSecond *resource.Quantity `json:"generationTokensPerSecond,omitempty"`

	// runningRequests over the sampled replicas. Absent when not known.
	// +optional
	RunningRequests *int64 `json:"runningRequests,omitempty"`

	// waitingRequests over the sampled replicas. Absent when not known.
	// +optional
	WaitingRequests *int64 `json:"waitingRequests,omitempty"`

	// kvCacheUsage is the mean fraction of KV cache in use, 0 to 1. Absent when not known.
	// +optional
	KVCacheUsage *resource.Quantity `json:"kvCacheUsage,omitempty"`

	// ttftMilliseconds is the time to first token (p95, else the mean). Absent when not known.
	// +optional
	TTFTMilliseconds *resource.Quantity `json:"ttftMilliseconds,omitempty"`

	// itlMilliseconds is the inter-token latency (p95, else the mean). Absent when not known.
	// +optional
	ITLMilliseconds *resource.Quantity `json:"itlMilliseconds,omitempty"`

	// rawRecommendedReplicas is what the algorithm computed.
	// +optional
	RawRecommendedReplicas int32 `json:"rawRecommendedReplicas,omitempty"`

	// constrainedReplicas is what is left of it after windows, steps, bounds, guards and ratios.
	// +optional
	ConstrainedReplicas int32 `json:"constrainedReplicas,omitempty"`

	// reason names the algorithm's decision or the first constraint that changed it.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Reason string `json:"reason,omitempty"`

	// lastScaleUpTime is when the role last grew.
	// +optional
	LastScaleUpTime *metav1.Time `json:"lastScaleUpTime,omitempty"`

	// panicUntil is when a running panic ends, unless the burst condition is met again.
	// +optional
	PanicUntil *metav1.Time `json:"panicUntil,omitempty"`

	// stabilizationHistory holds recent recommendations for the two stabilization windows, oldest first.
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

// Vector is a replica count for each role.
// +kubebuilder:validation:MaxProperties=32
type Vector map[string]int32

// CommitStatus records one write of replica counts.
type CommitStatus struct {
	// decisionID identifies the write: <epoch>.<sequence>.<kind>.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	DecisionID string `json:"decisionID,omitempty"`

	// term of the binding it was made under.
	// +optional
	Term int64 `json:"term,omitempty"`

	// vector is the committed count of each role.
	// +optional
	Vector Vector `json:"vector,omitempty"`

	// baselineVector is the counts before it.
	// +optional
	BaselineVector Vector `json:"baselineVector,omitempty"`

	// timestamp of the write.
	// +optional
	Timestamp metav1.Time `json:"timestamp,omitzero"`

	// targetGeneration is the target's generation that the write made.
	// +optional
	TargetGeneration int64 `json:"targetGeneration,omitempty"`
}

// PendingCohort is a growth waiting for admission.
type PendingCohort struct {
	// decisionID of the growth.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	DecisionID string `json:"decisionID,omitempty"`

	// term of the growth.
	// +optional
	Term int64 `json:"term,omitempty"`

	// baselineVector is restored if admission times out.
	// +optional
	BaselineVector Vector `json:"baselineVector,omitempty"`

	// targetVector is what was asked for.
	// +optional
	TargetVector Vector `json:"targetVector,omitempty"`

	// startedAt is when it was committed; sampling.pendingTimeoutSeconds counts from here.
	// +optional
	StartedAt metav1.Time `json:"startedAt,omitzero"`
}

// RebalanceStatus records a transfer of one replica's capacity.
type RebalanceStatus struct {
	// receiverRole wants to grow.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	ReceiverRole string `json:"receiverRole,omitempty"`

	// donorRole releases a replica.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	DonorRole string `json:"donorRole,omitempty"`

	// donorTargetReplicas is the donor's count after its step.
	// +optional
	DonorTargetReplicas int32 `json:"donorTargetReplicas,omitempty"`

	// receiverTargetReplicas is the receiver's count after its step.
	// +optional
	ReceiverTargetReplicas int32 `json:"receiverTargetReplicas,omitempty"`

	// startedAt is when the transfer began.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// exhaustionEpisodeGeneration identifies the exhaustion episode.
	// +optional
	ExhaustionEpisodeGeneration int64 `json:"exhaustionEpisodeGeneration,omitempty"`

	// donationAttempted is true once the episode has used its donation.
	// +optional
	DonationAttempted bool `json:"donationAttempted,omitempty"`

	// reason is the step of the transfer (ResourceExhausted, DonorRelease, ReceiverAcquire, DonationAttempted) or why there is
	// none (RebalanceNotApplicable, RebalanceBlocked).
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Reason string `json:"reason,omitempty"`
}

// ScaleDownOutcome says how a removal stands.
// +kubebuilder:validation:Enum=Committed;Aborted
type ScaleDownOutcome string

// The outcomes of a removal.
const (
	ScaleDownCommitted ScaleDownOutcome = "Committed"
	ScaleDownAborted   ScaleDownOutcome = "Aborted"
)

// ScaleDownStatus records the latest removal.
type ScaleDownStatus struct {
	// role that lost a replica.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Role string `json:"role,omitempty"`

	// ordinal removed, counted from zero.
	// +optional
	Ordinal int32 `json:"ordinal"`

	// preScaleDownVector is restored if the retirement is aborted.
	// +optional
	PreScaleDownVector Vector `json:"preScaleDownVector,omitempty"`

	// outcome is Committed, or Aborted after a failed retirement was restored.
	// +optional
	Outcome ScaleDownOutcome `json:"outcome,omitempty"`

	// abortedAt is when the abort was seen.
	// +optional
	AbortedAt *metav1.Time `json:"abortedAt,omitempty"`

	// cooldownUntil is when shrinking is allowed again.
	// +optional
	CooldownUntil *metav1.Time `json:"cooldownUntil,omitempty"`

	// consecutiveAborts counts aborted removals of this role in a row; each doubles the cooldown.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ConsecutiveAborts int32 `json:"consecutiveAborts,omitempty"`
}

// ExhaustionStatus records an exhaustion episode.
type ExhaustionStatus struct {
	// roles that timed out.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	// +optional
	Roles []string `json:"roles,omitempty"`

	// attempts counts the timeouts of this episode.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`

	// blockedUntil is when growth is tried again.
	// +optional
	BlockedUntil metav1.Time `json:"blockedUntil,omitzero"`

	// increment is, by role, the growth that was refused last.
	// +optional
	Increment Vector `json:"increment,omitempty"`
}

// PredictorStatus is the demand history, and for Predictive the filter, of one role.
type PredictorStatus struct {
	// name of the role.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`

	// level is the estimated demand in tokens per second.
	// +optional
	Level *resource.Quantity `json:"level,omitempty"`

	// trend is the estimated change of demand, in tokens per second each second.
	// +optional
	Trend *resource.Quantity `json:"trend,omitempty"`

	// covariance is the uncertainty of the two.
	// +optional
	Covariance *Covariance `json:"covariance,omitempty"`

	// sampleCount is the number of observations that the filter has taken in.
	// +optional
	SampleCount int64 `json:"sampleCount,omitempty"`

	// history holds recent demand, oldest first.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +optional
	History []Demand `json:"history,omitempty"`
}

// Covariance is the covariance matrix of (level, trend).
type Covariance struct {
	// p00 is the variance of the level.
	// +optional
	P00 resource.Quantity `json:"p00"`
	// p01 is the covariance of level and trend.
	// +optional
	P01 resource.Quantity `json:"p01"`
	// p10 is the covariance of trend and level.
	// +optional
	P10 resource.Quantity `json:"p10"`
	// p11 is the variance of the trend.
	// +optional
	P11 resource.Quantity `json:"p11"`
}

// Demand is one entry of a demand history.
type Demand struct {
	// timestamp of the observation.
	// +required
	Timestamp metav1.Time `json:"timestamp"`

	// tokensPerSecond is the demand: cache-missed prompt tokens, generation tokens or both, by the kind of the role.
	// +required
	TokensPerSecond resource.Quantity `json:"tokensPerSecond"`
}

// Condition types of a ModelDeploymentScaler (spec "Conditions").
const (
	ConditionBound        = "Bound"
	ConditionActive       = "Active"
	ConditionMetricsReady = "MetricsReady"
	ConditionBlocked      = "Blocked"
)

// Reasons of conditions (spec "Conditions"); ReasonBound, ReasonActive, ReasonObserved and ReasonReady are the good ones.
const (
	ReasonBound                  = "Bound"
	ReasonActive                 = "Active"
	ReasonTargetNotFound         = "TargetNotFound"
	ReasonAlreadyBound           = "AlreadyBound"
	ReasonTargetReplaced         = "TargetReplaced"
	ReasonInvalidBinding         = "InvalidBinding"
	ReasonSuspended              = "Suspended"
	ReasonShadowMode             = "ShadowMode"
	ReasonObserved               = "Observed"
	ReasonWaitingForMetrics      = "WaitingForMetrics"
	ReasonReady                  = "Ready"
	ReasonBoundsConflict         = "BoundsConflict"
	ReasonRatioConflict          = "RatioConflict"
	ReasonPacingBounded          = "PacingBounded"
	ReasonResourceExhausted      = "ResourceExhausted"
	ReasonScaleDownAborted       = "ScaleDownAborted"
	ReasonRebalanceNotApplicable = "RebalanceNotApplicable"
	ReasonRebalanceBlocked       = "RebalanceBlocked"
)
