package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

	// targetGeneration is the generation of the target that the write led to.
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

	// ordinal that was removed from the role, counted from zero.
	// +optional
	Ordinal int32 `json:"ordinal"`

	// decisionID of the commit that removed it.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	DecisionID string `json:"decisionID,omitempty"`

	// targetGeneration is the target's generation that this commit made: an aborted retirement of an older generation is not ours.
	// +optional
	TargetGeneration int64 `json:"targetGeneration,omitempty"`

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
