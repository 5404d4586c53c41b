package v1

import "k8s.io/apimachinery/pkg/api/resource"

// Algorithm selects one algorithm and carries its parameters: exactly the block that matches type.
type Algorithm struct {
	// type selects the algorithm. When omitted, admission takes Proportional or Predictive from the block that is present, and
	// TokenThroughput otherwise.
	// +optional
	Type AlgorithmType `json:"type,omitempty"`

	// proportional compares one live measurement with a fixed target per replica. It suits requests of uniform length, whose
	// number says how busy the GPU is.
	// +optional
	Proportional *Proportional `json:"proportional,omitempty"`

	// tokenThroughput averages token rates over two windows, with latency guards. It suits LLM serving in general and
	// prefill/decode pairs in particular.
	// +optional
	TokenThroughput *TokenThroughput `json:"tokenThroughput,omitempty"`

	// predictive forecasts token demand ahead of ramps, and never recommends less than tokenThroughput would.
	// +optional
	Predictive *Predictive `json:"predictive,omitempty"`
}

// AlgorithmType names an algorithm.
// +kubebuilder:validation:Enum=Proportional;TokenThroughput;Predictive
type AlgorithmType string

// The algorithms.
const (
	AlgorithmProportional    AlgorithmType = "Proportional"
	AlgorithmTokenThroughput AlgorithmType = "TokenThroughput"
	AlgorithmPredictive      AlgorithmType = "Predictive"
)

// Proportional divides one metric by a target per ready replica.
type Proportional struct {
	// metric is the measurement: QueueDepth (running + waiting requests), RunningRequests, WaitingRequests,
	// PromptTokensPerSecond (cache-missed), GenerationTokensPerSecond, or TotalTokensPerSecond (both rates).
	// +required
	Metric ProportionalMetric `json:"metric"`

	// tolerance is the relative distance from the target within which the count is held. Over 0, at most 1; default "0.1".
	// +kubebuilder:default="0.1"
	// +optional
	Tolerance *resource.Quantity `json:"tolerance,omitempty"`

	// roleTargets gives the load one ready replica should carry, by role. Every scaled role needs an entry here or a direct
	// ratio to a role that has one.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +required
	RoleTargets []RoleTarget `json:"roleTargets"`
}

// ProportionalMetric names a measurement.
// +kubebuilder:validation:Enum=QueueDepth;RunningRequests;WaitingRequests;PromptTokensPerSecond;GenerationTokensPerSecond;TotalTokensPerSecond
type ProportionalMetric string

// The measurements.
const (
	MetricQueueDepth                ProportionalMetric = "QueueDepth"
	MetricRunningRequests           ProportionalMetric = "RunningRequests"
	MetricWaitingRequests           ProportionalMetric = "WaitingRequests"
	MetricPromptTokensPerSecond     ProportionalMetric = "PromptTokensPerSecond"
	MetricGenerationTokensPerSecond ProportionalMetric = "GenerationTokensPerSecond"
	MetricTotalTokensPerSecond      ProportionalMetric = "TotalTokensPerSecond"
)

// RoleTarget is the load one ready replica of a role should carry.
type RoleTarget struct {
	// name of a scaled role, unique in this list.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`

	// target is the load per ready replica: requests for the request metrics, tokens per second for the rates. Over 0.
	// +required
	Target resource.Quantity `json:"target"`
}

// TokenThroughput sizes roles from token demand. Supply the capacity of every kind of role that is scaled, Encode excepted.
type TokenThroughput struct {
	// serverTargetTokensPerSecond is what one Server replica serves: prompt (cache-missed) plus generation tokens per second.
	// +optional
	ServerTargetTokensPerSecond *resource.Quantity `json:"serverTargetTokensPerSecond,omitempty"`

	// prefillTargetTokensPerSecond is what one Prefill replica serves: cache-missed prompt tokens per second.
	// +optional
	PrefillTargetTokensPerSecond *resource.Quantity `json:"prefillTargetTokensPerSecond,omitempty"`

	// decodeTargetTokensPerSecond is what one Decode replica serves: generation tokens per second.
	// +optional
	DecodeTargetTokensPerSecond *resource.Quantity `json:"decodeTargetTokensPerSecond,omitempty"`

	// stableWindowSeconds is the window of the ordinary recommendation. 30 to 600 seconds, default 180.
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=600
	// +kubebuilder:default=180
	// +optional
	StableWindowSeconds int32 `json:"stableWindowSeconds,omitempty"`

	// panicWindowSeconds is the short window that notices bursts. 10 to 300 seconds, default 60. Keep it shorter than
	// stableWindowSeconds.
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=300
	// +kubebuilder:default=60
	// +optional
	PanicWindowSeconds int32 `json:"panicWindowSeconds,omitempty"`

	// panicThreshold starts panic when the short window's rate reaches this many times the ready replicas' capacity. Over 0,
	// default "2".
	// +kubebuilder:default="2"
	// +optional
	PanicThreshold *resource.Quantity `json:"panicThreshold,omitempty"`

	// ttftTargetMilliseconds is the time to first token (p95) above which shrinking stops and, over 1.2 times of it, a replica
	// is added. Checked for Prefill and Server roles. Over 0, default "500".
	// +kubebuilder:default="500"
	// +optional
	TTFTTargetMilliseconds *resource.Quantity `json:"ttftTargetMilliseconds,omitempty"`

	// itlTargetMilliseconds is the inter-token latency (p95) above which shrinking stops and, over 1.2 times of it, a replica
	// is added. Checked for Decode and Server roles. Over 0, default "50".
	// +kubebuilder:default="50"
	// +optional
	ITLTargetMilliseconds *resource.Quantity `json:"itlTargetMilliseconds,omitempty"`
}

// Predictive sizes roles from a forecast of token demand.
type Predictive struct {
	// tokenThroughput is the fallback: it plans alone until the predictor is warm, and is the least that is recommended.
	// +required
	TokenThroughput TokenThroughput `json:"tokenThroughput"`

	// horizonSeconds is how far ahead demand is forecast: about the time a new replica needs to serve. 30 to 600 seconds,
	// default 300.
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=600
	// +kubebuilder:default=300
	// +optional
	HorizonSeconds int32 `json:"horizonSeconds,omitempty"`

	// serverTokenCapacityPerReplica divides the forecast of a Server role. Tokens per second.
	// +optional
	ServerTokenCapacityPerReplica *resource.Quantity `json:"serverTokenCapacityPerReplica,omitempty"`

	// prefillTokenCapacityPerReplica divides the forecast of a Prefill role. Prompt tokens per second.
	// +optional
	PrefillTokenCapacityPerReplica *resource.Quantity `json:"prefillTokenCapacityPerReplica,omitempty"`

	// decodeTokenCapacityPerReplica divides the forecast of a Decode role. Generation tokens per second.
	// +optional
	DecodeTokenCapacityPerReplica *resource.Quantity `json:"decodeTokenCapacityPerReplica,omitempty"`

	// qLevel is the process noise of the demand level: higher follows changes faster. Omitted or not positive: "1".
	// +kubebuilder:default="1"
	// +optional
	QLevel *resource.Quantity `json:"qLevel,omitempty"`

	// qTrend is the process noise of the demand trend: higher follows turns faster. Omitted or not positive: "0.1".
	// +kubebuilder:default="0.1"
	// +optional
	QTrend *resource.Quantity `json:"qTrend,omitempty"`

	// measurementNoise is the least variance an observation is given: higher trusts observations less. Omitted or not
	// positive: "10".
	// +kubebuilder:default="10"
	// +optional
	MeasurementNoise *resource.Quantity `json:"measurementNoise,omitempty"`

	// minPoints is how many observations the predictor needs before its forecast counts. 1 to 64, default 6.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +kubebuilder:default=6
	// +optional
	MinPoints int32 `json:"minPoints,omitempty"`
}
