package v1

import "k8s.io/apimachinery/pkg/api/resource"

// Algorithm selects one algorithm and carries its parameters: exactly the block that matches type.
//
// +kubebuilder:validation:XValidation:fieldPath=".proportional",rule="!has(self.type) || (self.type == 'Proportional') == has(self.proportional)",message="set proportional for type Proportional, and only then",messageExpression="has(self.proportional) ? 'remove proportional, or set type to Proportional: type is ' + self.type : 'add proportional: type Proportional needs it'"
// +kubebuilder:validation:XValidation:fieldPath=".tokenThroughput",rule="!has(self.type) || (self.type == 'TokenThroughput') == has(self.tokenThroughput)",message="set tokenThroughput for type TokenThroughput, and only then",messageExpression="has(self.tokenThroughput) ? 'remove tokenThroughput, or set type to TokenThroughput: type is ' + self.type : 'add tokenThroughput: type TokenThroughput, which is chosen when no other block is given, needs it'"
// +kubebuilder:validation:XValidation:fieldPath=".predictive",rule="!has(self.type) || (self.type == 'Predictive') == has(self.predictive)",message="set predictive for type Predictive, and only then",messageExpression="has(self.predictive) ? 'remove predictive, or set type to Predictive: type is ' + self.type : 'add predictive: type Predictive needs it'"
type Algorithm struct {
	// type selects the algorithm: Proportional, TokenThroughput or Predictive. When omitted, admission stores Proportional or
	// Predictive if that block is present, and TokenThroughput otherwise. Only the block of that name is accepted beside it.
	// +optional
	Type AlgorithmType `json:"type,omitempty"`

	// proportional compares one live measurement with a fixed target per replica. It suits requests of uniform length, whose
	// number says how busy the GPU is. For type Proportional only.
	// +optional
	Proportional *Proportional `json:"proportional,omitempty"`

	// tokenThroughput averages token rates over two windows, with latency guards. It suits LLM serving in general and
	// prefill/decode pairs in particular. For type TokenThroughput only.
	// +optional
	TokenThroughput *TokenThroughput `json:"tokenThroughput,omitempty"`

	// predictive forecasts token demand, to have replicas ready before a ramp needs them, and never recommends less than token
	// throughput would. It suits traffic that climbs for minutes. For type Predictive only.
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
	// PromptTokensPerSecond (cache-missed), GenerationTokensPerSecond, or TotalTokensPerSecond (both rates). Required. The
	// total over a role, divided by its ready replicas, is compared with the role's target.
	// +required
	Metric ProportionalMetric `json:"metric"`

	// tolerance is the relative distance from the target within which the count is held. Over 0, at most 1; default "0.1",
	// which is ten percent.
	// +kubebuilder:validation:XValidation:rule="string(self).matches('[eE][+-]?[0-9]{3}') || !isQuantity(string(self)) || quantity(string(self)).compareTo(quantity('1')) <= 0",message="must be a quantity of at most 1, such as \"0.1\""
	// +kubebuilder:default="0.1"
	// +optional
	Tolerance *resource.Quantity `json:"tolerance,omitempty"`

	// roleTargets gives the load one ready replica should carry, by role; 1 to 16 entries. Every scaled role needs an entry
	// here or a direct ratio to a role that has one.
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
	MetricPromptTokensPerSecond     ProportionalMetric = "PromptTokensPerSecond" //nolint:gosec // tokens of text, no credential
	MetricGenerationTokensPerSecond ProportionalMetric = "GenerationTokensPerSecond"
	MetricTotalTokensPerSecond      ProportionalMetric = "TotalTokensPerSecond" //nolint:gosec // tokens of text, no credential
)

// RoleTarget is the load that one ready replica of a role should carry.
type RoleTarget struct {
	// name of a scaled role, unique in this list. 1 to 63 characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`

	// target is the load per ready replica: requests for the request metrics, tokens per second for the rates. Over 0,
	// required. A smaller target means more replicas.
	// +required
	Target resource.Quantity `json:"target"`
}

// TokenThroughput sizes roles from token demand. Supply the capacity of every kind of role that is scaled, Encode excepted.
//
// +kubebuilder:validation:XValidation:rule="has(self.serverTargetTokensPerSecond) || has(self.prefillTargetTokensPerSecond) || has(self.decodeTargetTokensPerSecond)",message="set the capacity of every kind of role that is scaled: serverTargetTokensPerSecond, prefillTargetTokensPerSecond or decodeTargetTokensPerSecond"
type TokenThroughput struct {
	// serverTargetTokensPerSecond is what one Server replica serves: prompt (cache-missed) plus generation tokens per second. Over 0, no
	// default; required when a Server role is scaled.
	// +optional
	ServerTargetTokensPerSecond *resource.Quantity `json:"serverTargetTokensPerSecond,omitempty"`

	// prefillTargetTokensPerSecond is what one Prefill replica serves: cache-missed prompt tokens per second. Over 0, no
	// default; required when a Prefill role is scaled.
	// +optional
	PrefillTargetTokensPerSecond *resource.Quantity `json:"prefillTargetTokensPerSecond,omitempty"`

	// decodeTargetTokensPerSecond is what one Decode replica serves: generation tokens per second. Over 0, no
	// default; required when a Decode role is scaled.
	// +optional
	DecodeTargetTokensPerSecond *resource.Quantity `json:"decodeTargetTokensPerSecond,omitempty"`

	// stableWindowSeconds is the span over which demand is averaged for the ordinary recommendation. 30 to 600 seconds,
	// default 180. A longer one is calmer and slower.
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=600
	// +kubebuilder:default=180
	// +optional
	StableWindowSeconds int32 `json:"stableWindowSeconds,omitempty"`

	// panicWindowSeconds is the short span whose average notices bursts. 10 to 300 seconds, default 60. Keep it shorter than
	// stableWindowSeconds, which is not enforced.
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=300
	// +kubebuilder:default=60
	// +optional
	PanicWindowSeconds int32 `json:"panicWindowSeconds,omitempty"`

	// panicThreshold starts panic when the average over panicWindowSeconds reaches this many times the ready replicas'
	// capacity. Over 0, default "2". During panic the larger recommendation of the two windows counts and nothing shrinks. At
	// or below 1, panic starts at or before full capacity.
	// +kubebuilder:default="2"
	// +optional
	PanicThreshold *resource.Quantity `json:"panicThreshold,omitempty"`

	// ttftTargetMilliseconds is the time to first token (p95, in milliseconds) above which shrinking stops and, over 1.2 times
	// of it, a replica is added. Checked for Prefill and Server roles. Over 0, default "500".
	// +kubebuilder:default="500"
	// +optional
	TTFTTargetMilliseconds *resource.Quantity `json:"ttftTargetMilliseconds,omitempty"`

	// itlTargetMilliseconds is the inter-token latency (p95, in milliseconds) above which shrinking stops and, over 1.2 times
	// of it, a replica is added. Checked for Decode and Server roles. Over 0, default "50".
	// +kubebuilder:default="50"
	// +optional
	ITLTargetMilliseconds *resource.Quantity `json:"itlTargetMilliseconds,omitempty"`
}

// Predictive sizes roles from a forecast of token demand.
//
// +kubebuilder:validation:XValidation:rule="has(self.serverTokenCapacityPerReplica) || has(self.prefillTokenCapacityPerReplica) || has(self.decodeTokenCapacityPerReplica)",message="set the forecast capacity of every kind of role that is scaled: serverTokenCapacityPerReplica, prefillTokenCapacityPerReplica or decodeTokenCapacityPerReplica"
type Predictive struct {
	// tokenThroughput is the fallback: it plans alone until the predictor is warm, and its result is the least that is
	// recommended. Required; same fields, defaults and rules as algorithm.tokenThroughput.
	// +required
	TokenThroughput TokenThroughput `json:"tokenThroughput"`

	// horizonSeconds is how far ahead demand is forecast: about the time a new replica needs to serve. 30 to 600 seconds,
	// default 300.
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=600
	// +kubebuilder:default=300
	// +optional
	HorizonSeconds int32 `json:"horizonSeconds,omitempty"`

	// serverTokenCapacityPerReplica is what one Server replica can serve of the forecast: prompt (cache-missed) plus generation tokens per second.
	// Over 0, no default; required when a Server role is scaled.
	// +optional
	ServerTokenCapacityPerReplica *resource.Quantity `json:"serverTokenCapacityPerReplica,omitempty"`

	// prefillTokenCapacityPerReplica is what one Prefill replica can serve of the forecast: cache-missed prompt tokens per second.
	// Over 0, no default; required when a Prefill role is scaled.
	// +optional
	PrefillTokenCapacityPerReplica *resource.Quantity `json:"prefillTokenCapacityPerReplica,omitempty"`

	// decodeTokenCapacityPerReplica is what one Decode replica can serve of the forecast: generation tokens per second.
	// Over 0, no default; required when a Decode role is scaled.
	// +optional
	DecodeTokenCapacityPerReplica *resource.Quantity `json:"decodeTokenCapacityPerReplica,omitempty"`

	// qLevel is the process noise of the demand level: a higher value lets the estimate change faster. Default "1", which also
	// replaces a value that is not positive.
	// +kubebuilder:default="1"
	// +optional
	QLevel *resource.Quantity `json:"qLevel,omitempty"`

	// qTrend is the process noise of the demand trend: a higher value lets the estimate turn faster. Default "0.1", which also
	// replaces a value that is not positive.
	// +kubebuilder:default="0.1"
	// +optional
	QTrend *resource.Quantity `json:"qTrend,omitempty"`

	// measurementNoise is the least variance that an observation is given: a higher value trusts observations less. Default
	// "10", which also replaces a value that is not positive.
	// +kubebuilder:default="10"
	// +optional
	MeasurementNoise *resource.Quantity `json:"measurementNoise,omitempty"`

	// minPoints is how many observations the predictor needs before its forecast counts. 1 to 64, default 6. Until then the
	// role's reason is PredictorWarmingUp.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +kubebuilder:default=6
	// +optional
	MinPoints int32 `json:"minPoints,omitempty"`
}
