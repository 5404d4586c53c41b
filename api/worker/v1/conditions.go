package v1

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
