package observe

import "time"

// RoleObservation is one pass over all sampled Pods of one role (ARCHITECTURE "Contracts").
type RoleObservation struct {
	Key  RoleKey
	Kind RoleKind
	// Engine recognised from the expositions.
	Engine Engine
	// Sequence grows by one with every pass of this role on its sampler.
	Sequence uint64
	// Start and End of the pass on the sampler's wall clock: for people, never compared with another clock.
	Start, End time.Time
	// Age of the pass where it is handed over, by monotonic clocks (D12).
	Age time.Duration
	// Interval in force.
	Interval time.Duration
	// Span that the rates stand for (D13).
	Span time.Duration
	// Replayed marks history: it never is the current reading (D55).
	Replayed bool

	Coverage Coverage
	// State as far as the sampler can tell: Fresh, Idle or Missing.
	State SignalState

	// Request counts, summed over the Pods that answered.
	Running, Waiting Value
	// Tokens per second, summed over the Pods with a rate. Prompt is cache-missed, RawPrompt is all.
	Prompt, RawPrompt, Generation Value
	// KVCacheUsage is the mean fraction in use, 0 to 1.
	KVCacheUsage Value
	// Latencies over the new observations of this pass.
	TTFT, ITL Latency
}

// Coverage says how much of a role one pass has seen.
type Coverage struct {
	ReadyReplicas int // ready serving replicas, from the snapshot the targets came from
	Targets       int // Pods that answer for them
	Selected      int // Pods selected for sampling: targets up to the cap
	Answered      int // Pods whose exposition was read
	Rated         int // Pods that also yielded rates
	Uncovered     []UncoveredPod
}

// Complete says that every target's requests are in the sums (D3).
func (c Coverage) Complete() bool { return c.Targets > 0 && c.Answered == c.Targets }

// RatesComplete says that every target's rates are in the sums too.
func (c Coverage) RatesComplete() bool { return c.Complete() && c.Rated == c.Targets }

// UncoveredPod is a Pod missing from the sums.
type UncoveredPod struct {
	Name    string
	Reason  UncoveredReason
	Message string // for people; at most 256 bytes
}

// UncoveredReason says why a Pod is missing from the sums.
type UncoveredReason string

// The reasons.
const (
	OverCap        UncoveredReason = "OverCap"
	Unreachable    UncoveredReason = "Unreachable"
	Timeout        UncoveredReason = "Timeout"
	HTTPStatus     UncoveredReason = "HTTPStatus"
	TooLarge       UncoveredReason = "TooLarge"
	Malformed      UncoveredReason = "Malformed"
	NoEngineSeries UncoveredReason = "NoEngineSeries"
	InvalidValue   UncoveredReason = "InvalidValue"
	NoBaseline     UncoveredReason = "NoBaseline"
	Reset          UncoveredReason = "Reset"
	NotScraped     UncoveredReason = "NotScraped"
)

// LatencySource says what a latency value is (D10). The zero value is: missing.
type LatencySource string

// The sources.
const (
	FromBucket LatencySource = "bucket"
	FromMean   LatencySource = "mean"
)

// Latency is a latency over the new observations of one pass; missing when Source is empty.
type Latency struct {
	Milliseconds float64
	Source       LatencySource
	Count        float64  // new observations
	SumSeconds   float64  // of the new observations
	Buckets      []Bucket // merged cumulative deltas, ascending, +Inf last
}

// Value is the latency in milliseconds.
func (l Latency) Value() Value {
	return Value{Float64: l.Milliseconds, Valid: l.Source != ""}
}

// Bucket is a cumulative delta at or below LESeconds.
type Bucket struct {
	LESeconds, Count float64
}
