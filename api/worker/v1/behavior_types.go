package v1

// Behavior paces growth and shrinking separately.
type Behavior struct {
	// scaleUp paces growth.
	// +kubebuilder:default={}
	// +optional
	ScaleUp ScaleUp `json:"scaleUp,omitzero"`

	// scaleDown paces shrinking.
	// +kubebuilder:default={}
	// +optional
	ScaleDown ScaleDown `json:"scaleDown,omitzero"`
}

// ScaleUp paces growth.
type ScaleUp struct {
	// stabilizationWindowSeconds delays growth until the recommendation history spans this window, and then grows only to the
	// lowest recommendation in it. 0 to 600 seconds, default 0: no wait.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=600
	// +kubebuilder:default=0
	// +optional
	StabilizationWindowSeconds int32 `json:"stabilizationWindowSeconds,omitempty"`

	// maxStepReplicas is how many replicas one pass may add; the larger of it and maxStepPercent counts. 0 to 1024 replicas;
	// zero or omission stores 4. To bound by one unit alone, or to prevent growth, use stepPolicy.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1024
	// +kubebuilder:default=4
	// +optional
	MaxStepReplicas int32 `json:"maxStepReplicas,omitempty"`

	// maxStepPercent is how much one pass may add, as a percentage of the current count, rounded up; the larger of it and
	// maxStepReplicas counts. 0 to 1000 percent; zero or omission stores 100.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=100
	// +optional
	MaxStepPercent int32 `json:"maxStepPercent,omitempty"`

	// stepPolicy replaces maxStepReplicas and maxStepPercent by one bound in one unit. Absent by default. A value of zero
	// prevents growth.
	// +structType=atomic
	// +optional
	StepPolicy *StepPolicy `json:"stepPolicy,omitempty"`
}

// ScaleDown paces shrinking. Zero does not disable its guards: zero or omission stores the default.
type ScaleDown struct {
	// stabilizationWindowSeconds is the window whose highest recommendation is a floor for shrinking; nothing shrinks before
	// the history spans it. 0 to 1800 seconds; zero or omission stores 300.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1800
	// +kubebuilder:default=300
	// +optional
	StabilizationWindowSeconds int32 `json:"stabilizationWindowSeconds,omitempty"`

	// cooldownAfterAbortSeconds keeps the whole target from shrinking after a retirement was aborted. 0 to 3600 seconds; zero
	// or omission stores 300.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	// +kubebuilder:default=300
	// +optional
	CooldownAfterAbortSeconds int32 `json:"cooldownAfterAbortSeconds,omitempty"`

	// decodePostScaleUpGraceSeconds keeps a Decode role from shrinking while the replicas it just got settle. Other kinds of
	// role ignore it. 0 to 3600 seconds; zero or omission stores 120.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	// +kubebuilder:default=120
	// +optional
	DecodePostScaleUpGraceSeconds int32 `json:"decodePostScaleUpGraceSeconds,omitempty"`

	// stepPolicy replaces the default limit of one replica per pass and role. Absent by default. A value of zero prevents
	// shrinking.
	// +structType=atomic
	// +optional
	StepPolicy *StepPolicy `json:"stepPolicy,omitempty"`
}

// StepPolicy bounds one pass in one unit.
type StepPolicy struct {
	// type is the unit: Pods counts serving replicas (whatever the number of Pods of each), Percent is a percentage of the
	// current count, rounded up. Required.
	// +required
	Type StepPolicyType `json:"type"`

	// value is the bound in that unit, 0 to 1000000. Required. Zero prevents movement in this direction.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +required
	Value int32 `json:"value"`
}

// StepPolicyType is the unit of a step.
// +kubebuilder:validation:Enum=Pods;Percent
type StepPolicyType string

// The units of a step.
const (
	StepPods    StepPolicyType = "Pods"
	StepPercent StepPolicyType = "Percent"
)

// Rebalance chooses who may release capacity for a role that cannot grow.
type Rebalance struct {
	// policy selects the donor. Opposing (the default): a role whose own recommendation is to shrink. Priority: a role after
	// the receiver in priority, even one that would hold. Disabled: nobody.
	// +kubebuilder:default=Opposing
	// +optional
	Policy RebalancePolicy `json:"policy,omitempty"`

	// priority lists scaled roles, most important first, for the policy Priority alone; at most 16, each once. A receiver may
	// take from the roles after it, starting with the next; roles that are not listed neither give nor take.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +optional
	Priority []string `json:"priority,omitempty"`
}

// RebalancePolicy selects donors.
// +kubebuilder:validation:Enum=Opposing;Priority;Disabled
type RebalancePolicy string

// The policies.
const (
	RebalanceOpposing RebalancePolicy = "Opposing"
	RebalancePriority RebalancePolicy = "Priority"
	RebalanceDisabled RebalancePolicy = "Disabled"
)
