package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ModelDeploymentScaler plans replica counts for one ModelDeployment from the metrics of its inference engines. It reports
// what it observes and recommends in status and, in Active mode, writes spec.roles[].replicas of the target: all roles
// together, in one write.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=mds,categories={gpustack,autoscaling},singular=modeldeploymentscaler
// +kubebuilder:selectablefield:JSONPath=`.spec.targetRef.name`
// +kubebuilder:selectablefield:JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.targetRef.name`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Algorithm",type=string,JSONPath=`.spec.algorithm.type`
// +kubebuilder:printcolumn:name="Bound",type=string,JSONPath=`.status.conditions[?(@.type=="Bound")].status`
// +kubebuilder:printcolumn:name="Active",type=string,JSONPath=`.status.conditions[?(@.type=="Active")].status`
// +kubebuilder:printcolumn:name="Blocked",type=string,JSONPath=`.status.conditions[?(@.type=="Blocked")].status`
// +kubebuilder:printcolumn:name="MetricsReady",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="MetricsReady")].status`
// +kubebuilder:printcolumn:name="Suspended",type=boolean,priority=1,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Term",type=integer,priority=1,JSONPath=`.status.binding.term`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ModelDeploymentScaler struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what you want: the target, its bounds, the algorithm and its pace.
	// +required
	Spec ModelDeploymentScalerSpec `json:"spec"`

	// status is what the scaler sees, recommends and did. It is written by the scaler alone and is its durable memory.
	// +optional
	Status ModelDeploymentScalerStatus `json:"status,omitzero"`
}

// ModelDeploymentScalerList is a list of ModelDeploymentScalers.
//
// +kubebuilder:object:root=true
type ModelDeploymentScalerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ModelDeploymentScaler `json:"items"`
}

// ModelDeploymentScalerSpec is the policy of one scaler.
//
// Rules that involve several fields are CEL rules on this type; see the kubebuilder:validation:XValidation markers.
type ModelDeploymentScalerSpec struct {
	// targetRef names the ModelDeployment to scale, in the namespace of the scaler. It cannot be changed: create another
	// scaler to scale another deployment. The target may be created later; until then the scaler reports TargetNotFound.
	// +required
	TargetRef TargetReference `json:"targetRef"`

	// mode says what to do with a recommendation. Shadow (the default) reports it in status and writes nothing to the target.
	// Active binds the target, so that nobody else changes its replica counts, and commits the recommendation.
	// +kubebuilder:default=Shadow
	// +optional
	Mode Mode `json:"mode,omitempty"`

	// suspend stops planning and releases the binding; the target keeps its counts. Default false.
	// +kubebuilder:default=false
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// sampling sets how often the engines are read and how long a growth may wait for admission.
	// +kubebuilder:default={}
	// +optional
	Sampling Sampling `json:"sampling,omitzero"`

	// roles bounds every role of the target, by name. A role of the target without an entry blocks planning with
	// BoundsConflict: list all of them.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +required
	Roles []RoleBounds `json:"roles"`

	// ratios keep the replica counts of two roles in proportion, as numerator / denominator.
	// +listType=map
	// +listMapKey=numeratorRole
	// +listMapKey=denominatorRole
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Ratios []Ratio `json:"ratios,omitempty"`

	// algorithm turns observed load into a recommended count for each role.
	// +kubebuilder:default={}
	// +optional
	Algorithm Algorithm `json:"algorithm,omitzero"`

	// behavior paces how recommendations become changes: windows, steps and guards for growth and for shrinking.
	// +kubebuilder:default={}
	// +optional
	Behavior Behavior `json:"behavior,omitzero"`

	// rebalance moves capacity from one role to another when the cluster has no room left for growth.
	// +kubebuilder:default={}
	// +optional
	Rebalance Rebalance `json:"rebalance,omitzero"`
}

// TargetReference names a ModelDeployment in the scaler's namespace.
type TargetReference struct {
	// name of the ModelDeployment. Immutable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}

// Mode says whether recommendations are committed.
// +kubebuilder:validation:Enum=Shadow;Active
type Mode string

// The modes.
const (
	ModeShadow Mode = "Shadow"
	ModeActive Mode = "Active"
)

// Sampling is the cadence of observation.
type Sampling struct {
	// intervalSeconds between two scrapes of an engine, which also limits how fast the scaler can react. 5 to 300 seconds,
	// default 15. A shorter interval costs the engines more scrapes.
	// +kubebuilder:validation:Minimum=5
	// +kubebuilder:validation:Maximum=300
	// +kubebuilder:default=15
	// +optional
	IntervalSeconds int32 `json:"intervalSeconds,omitempty"`

	// pendingTimeoutSeconds is how long added replicas may wait for admission (quota) before the whole growth is taken back
	// in one write and ResourceExhausted is reported. 60 to 1200 seconds, default 300.
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=1200
	// +kubebuilder:default=300
	// +optional
	PendingTimeoutSeconds int32 `json:"pendingTimeoutSeconds,omitempty"`
}

// RoleBounds bounds the replica count of one role.
//
// +kubebuilder:validation:XValidation:rule="self.minReplicas <= self.maxReplicas",message="minReplicas must not be greater than maxReplicas"
type RoleBounds struct {
	// name of the role on the target, unique in this list.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`

	// minReplicas is the floor. 1 to 1024, default 1: the scaler cannot scale to zero.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	// +kubebuilder:default=1
	// +optional
	MinReplicas int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the ceiling. 1 to 1024, at least minReplicas. Required: it is your budget.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	// +required
	MaxReplicas int32 `json:"maxReplicas"`
}

// Ratio relates the counts of two roles: numerator / denominator.
type Ratio struct {
	// numeratorRole is the scaled role above the line.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	NumeratorRole string `json:"numeratorRole"`

	// denominatorRole is the scaled role below the line, another one than numeratorRole.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	DenominatorRole string `json:"denominatorRole"`

	// target is the preferred ratio, within min and max. It breaks ties, and it sizes a role that has no target of its own.
	// +optional
	Target *resource.Quantity `json:"target,omitempty"`

	// min is the smallest allowed ratio. A vector below it is never written.
	// +optional
	Min *resource.Quantity `json:"min,omitempty"`

	// max is the largest allowed ratio. A vector above it is never written. Equal min, target and max fix the ratio.
	// +optional
	Max *resource.Quantity `json:"max,omitempty"`
}

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

	// maxStepReplicas is how many replicas one pass may add; the larger of it and maxStepPercent counts. Zero or omission
	// stores 4. To bound by one unit alone, or to prevent growth, use stepPolicy.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1024
	// +kubebuilder:default=4
	// +optional
	MaxStepReplicas int32 `json:"maxStepReplicas,omitempty"`

	// maxStepPercent is how much one pass may add, as a percentage of the current count, rounded up. 0 to 1000; zero or
	// omission stores 100.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=100
	// +optional
	MaxStepPercent int32 `json:"maxStepPercent,omitempty"`

	// stepPolicy replaces maxStepReplicas and maxStepPercent by one bound in one unit. A value of zero prevents growth.
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

	// decodePostScaleUpGraceSeconds keeps a Decode role from shrinking while the replicas it just got settle. 0 to 3600
	// seconds; zero or omission stores 120.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	// +kubebuilder:default=120
	// +optional
	DecodePostScaleUpGraceSeconds int32 `json:"decodePostScaleUpGraceSeconds,omitempty"`

	// stepPolicy replaces the default limit of one replica per pass and role. A value of zero prevents shrinking.
	// +optional
	StepPolicy *StepPolicy `json:"stepPolicy,omitempty"`
}

// StepPolicy bounds one pass in one unit.
type StepPolicy struct {
	// type is the unit: Pods counts serving replicas (whatever the number of Pods of each), Percent is a percentage of the
	// current count, rounded up.
	// +required
	Type StepPolicyType `json:"type"`

	// value is the bound in that unit, not negative. Zero prevents movement in this direction.
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

	// priority lists scaled roles, most important first, for the policy Priority alone. A receiver may take from the roles
	// after it; roles not listed neither give nor take.
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
