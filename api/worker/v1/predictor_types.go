package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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

	// covariance is the uncertainty of level and trend.
	// +optional
	Covariance *Covariance `json:"covariance,omitempty"`

	// sampleCount is the number of observations that the filter has taken in.
	// +optional
	SampleCount int64 `json:"sampleCount,omitempty"`

	// history holds recent demand, oldest first; at most 256.
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

	// partial says that not every replica was in it: the demand was at least this. Such an entry justifies growth only.
	// +optional
	Partial bool `json:"partial,omitempty"`
}
