package v1

import "k8s.io/apimachinery/pkg/api/resource"

// RoleBounds is the range that the replica count of one role stays in.
//
// +kubebuilder:validation:XValidation:rule="self.minReplicas <= self.maxReplicas",message="minReplicas must not be over maxReplicas: lower minReplicas or raise maxReplicas"
type RoleBounds struct {
	// name of the role on the target, unique in this list. 1 to 63 characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`

	// minReplicas is the floor. 1 to 1024 serving replicas, default 1: the scaler cannot scale to zero.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	// +kubebuilder:default=1
	// +optional
	MinReplicas int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the ceiling. 1 to 1024 serving replicas, at least minReplicas. Required, since it is your budget.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	// +required
	MaxReplicas int32 `json:"maxReplicas"`
}

// The rules of a ratio look at exponents first, since comparing a quantity such as 1e9999999 takes seconds (hack/crd refuses it).

// Ratio relates the counts of two roles, as numerator / denominator.
//
// +kubebuilder:validation:XValidation:fieldPath=".denominatorRole",rule="self.numeratorRole != self.denominatorRole",message="numeratorRole and denominatorRole must be two different roles"
// +kubebuilder:validation:XValidation:fieldPath=".min",rule="!has(self.min) || !has(self.max) || [self.min, self.max].exists(q, string(q).matches('[eE][+-]?[0-9]{3}') || !isQuantity(string(q))) || quantity(string(self.min)).compareTo(quantity(string(self.max))) <= 0",message="min must not be over max: lower min or raise max"
// +kubebuilder:validation:XValidation:fieldPath=".target",rule="!has(self.min) || !has(self.target) || [self.min, self.target].exists(q, string(q).matches('[eE][+-]?[0-9]{3}') || !isQuantity(string(q))) || quantity(string(self.min)).compareTo(quantity(string(self.target))) <= 0",message="target must not be under min: raise target or lower min"
// +kubebuilder:validation:XValidation:fieldPath=".target",rule="!has(self.target) || !has(self.max) || [self.target, self.max].exists(q, string(q).matches('[eE][+-]?[0-9]{3}') || !isQuantity(string(q))) || quantity(string(self.target)).compareTo(quantity(string(self.max))) <= 0",message="target must not be over max: lower target or raise max"
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

	// target is the preferred ratio. Over 0, within min and max, no default. It breaks ties between allowed counts, and it
	// sizes a role that has no target of its own from its partner. Without min and max it is a preference only.
	// +optional
	Target *resource.Quantity `json:"target,omitempty"`

	// min is the smallest allowed ratio. Over 0, no default: without it there is no lower bound. Counts below it are never
	// written.
	// +optional
	Min *resource.Quantity `json:"min,omitempty"`

	// max is the largest allowed ratio. Over 0, no default: without it there is no upper bound. Counts above it are never
	// written. Equal min, target and max fix the ratio.
	// +optional
	Max *resource.Quantity `json:"max,omitempty"`
}
