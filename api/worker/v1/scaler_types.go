package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ModelDeploymentScaler plans replica counts for one ModelDeployment from the metrics of its inference engines. It reports
// what it observes and recommends in status and, in Active mode, writes spec.roles[].replicas of the target: all roles
// together, in one write.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=mds,categories={gpustack,autoscaling},singular=modeldeploymentscaler
// +kubebuilder:selectablefield:JSONPath=`.spec.targetRef.name`
// +kubebuilder:selectablefield:JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.targetRef.name`,description="ModelDeployment that is scaled"
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`,description="Shadow reports, Active also writes"
// +kubebuilder:printcolumn:name="Algorithm",type=string,JSONPath=`.spec.algorithm.type`,description="How load becomes a recommendation"
// +kubebuilder:printcolumn:name="Bound",type=string,JSONPath=`.status.conditions[?(@.type=="Bound")].status`,description="The target is available to this scaler"
// +kubebuilder:printcolumn:name="Active",type=string,JSONPath=`.status.conditions[?(@.type=="Active")].status`,description="The scaler may commit"
// +kubebuilder:printcolumn:name="Blocked",type=string,JSONPath=`.status.conditions[?(@.type=="Blocked")].status`,description="Something holds the recommendation back"
// +kubebuilder:printcolumn:name="MetricsReady",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="MetricsReady")].status`,description="All signals that are needed are there"
// +kubebuilder:printcolumn:name="Suspended",type=boolean,priority=1,JSONPath=`.spec.suspend`,description="Planning is stopped and the binding released"
// +kubebuilder:printcolumn:name="Term",type=integer,priority=1,JSONPath=`.status.binding.term`,description="Number of the binding that commits are made under"
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
// An object without algorithm.type meets these rules only where nothing filled it in, because the mutating webhook is not
// installed. It is refused rather than guessed at in a second place.
//
// +kubebuilder:validation:XValidation:fieldPath=".algorithm.type",rule="has(self.algorithm) && has(self.algorithm.type)",message="set algorithm.type to Proportional, TokenThroughput or Predictive: only the mutating webhook of the scaler infers it, which did not see this object or could not read it"
// +kubebuilder:validation:XValidation:fieldPath=".ratios",rule="!has(self.ratios) || self.ratios.all(r, self.roles.exists(x, x.name == r.numeratorRole))",message="every numeratorRole of ratios needs an entry in roles: add its bounds there or correct the name"
// +kubebuilder:validation:XValidation:fieldPath=".ratios",rule="!has(self.ratios) || self.ratios.all(r, self.roles.exists(x, x.name == r.denominatorRole))",message="every denominatorRole of ratios needs an entry in roles: add its bounds there or correct the name"
// +kubebuilder:validation:XValidation:fieldPath=".algorithm.proportional.roleTargets",rule="!has(self.algorithm) || !has(self.algorithm.proportional) || self.algorithm.proportional.roleTargets.all(t, self.roles.exists(x, x.name == t.name))",message="every name in algorithm.proportional.roleTargets needs an entry in roles: add its bounds there or correct the name"
// +kubebuilder:validation:XValidation:fieldPath=".rebalance.priority",rule="!has(self.rebalance) || !has(self.rebalance.priority) || self.rebalance.priority.all(p, self.roles.exists(x, x.name == p))",message="every name in rebalance.priority needs an entry in roles: add its bounds there or correct the name",messageExpression="'role ' + self.rebalance.priority.filter(n, !self.roles.exists(x, x.name == n))[0] + ' of rebalance.priority needs an entry in roles: add its bounds there or correct the name'"
type ModelDeploymentScalerSpec struct {
	// targetRef names the ModelDeployment to scale, in the namespace of the scaler. It cannot be changed: create another
	// scaler to scale another deployment. The target may be created later; until then the scaler reports TargetNotFound.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="targetRef cannot be changed: delete this scaler and create one for the other deployment"
	// +structType=atomic
	// +required
	TargetRef TargetReference `json:"targetRef"`

	// mode says what to do with a recommendation. Shadow (the default) reports it in status and writes nothing to the target.
	// Active binds the target, so that nobody else changes its replica counts, and commits the recommendation.
	// +kubebuilder:default=Shadow
	// +optional
	Mode Mode `json:"mode,omitempty"`

	// suspend stops planning and releases the binding; the target keeps its counts and goes on serving. Default false.
	// +kubebuilder:default=false
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// sampling sets how often the engines are read and how long a growth may wait for admission.
	// +kubebuilder:default={}
	// +optional
	Sampling Sampling `json:"sampling,omitzero"`

	// roles bounds every role of the target, by name; 1 to 16 entries. A role of the target without an entry blocks planning
	// with BoundsConflict, so list all of them. The current counts of the target must lie within the bounds, too.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +required
	Roles []RoleBounds `json:"roles"`

	// ratios keep the replica counts of two roles in proportion, as numerator / denominator; at most 32, each ordered pair
	// once. The current counts of the target must satisfy min and max, else planning stops with RatioConflict.
	// +listType=map
	// +listMapKey=numeratorRole
	// +listMapKey=denominatorRole
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Ratios []Ratio `json:"ratios,omitempty"`

	// algorithm turns observed load into a recommended count for each role. It holds one block of parameters.
	// +optional
	Algorithm Algorithm `json:"algorithm,omitzero"`

	// behavior paces how recommendations become changes: windows, steps and guards, separately for growth and for shrinking.
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
	// name of the ModelDeployment, 1 to 253 characters. Immutable.
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
	// intervalSeconds is the time between two scrapes of an engine, which also limits how fast the scaler can react. 5 to 300
	// seconds, default 15. A shorter interval costs the engines more scrapes.
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
