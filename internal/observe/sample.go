package observe

// Sample is what one scrape of one Pod says, after ranks were chosen and added up (D6). It is compact on purpose: a sampler
// keeps one for every Pod. It never changes once it was made.
type Sample struct {
	// Engine whose series were found.
	Engine Engine
	// ProcessStart is process_start_time_seconds; missing where the engine runs several processes.
	ProcessStart Value

	// Requests at the time of the scrape; missing when absent or unusable. TransferQueue is SGLang's queue of requests
	// whose KV cache is on its way to a decode replica.
	Running, Waiting, TransferQueue Value
	// KVCacheUsage is the fraction of KV cache in use, 0 to 1.
	KVCacheUsage Value

	// Counters by what they count, ascending by Group; a kind that was not exposed is empty.
	Counters [CounterKinds][]Counter
	// TTFT and ITL are the latency histograms, in seconds, ascending by Group.
	TTFT, ITL []Histogram

	// InvalidGauge and InvalidCounter name a needed series whose value was NaN, infinite, negative or absurd; empty: none.
	InvalidGauge, InvalidCounter string
}

// CounterKind is what a counter counts. All are tokens.
type CounterKind int

// The kinds (spec "Engine signals", D9).
const (
	PromptTokens     CounterKind = iota // all prompt tokens
	LocalCompute                        // vLLM: prompt tokens computed here, the cache-missed work itself
	PrefixHits                          // vLLM: prompt tokens found in the prefix cache
	EffectiveInput                      // SGLang: cache-missed prompt tokens
	EffectiveHits                       // SGLang: prompt tokens found on device, host or storage
	CachedTokens                        // SGLang: prompt tokens found in any cache, counted when a request ends
	GenerationTokens                    // generated tokens
	RealtimeDecode                      // SGLang: generated tokens, counted while they are made
	CounterKinds                        // number of kinds
)

// Counter is one independent engine's (data-parallel rank's) share of a counter.
type Counter struct {
	// Group identifies series that repeat each other: everything about a series but its tensor, pipeline and expert ranks.
	// It means something within one process only.
	Group uint64
	// Member is the rank that was chosen from the group; another one is not comparable (D6).
	Member uint64
	Value  float64
}

// Histogram is one independent engine's share of a latency histogram.
type Histogram struct {
	Group, Member uint64 // as of Counter
	// Count of all observations.
	Count float64
	// SumSeconds of all observations; missing when not exposed or not a number.
	SumSeconds Value
	// Buckets are cumulative, ascending, without the infinite one.
	Buckets []Bucket
}
