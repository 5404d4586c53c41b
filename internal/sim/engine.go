package sim

import (
	"container/heap"
	"math"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// Capacity is what one engine can do.
type Capacity struct {
	// PrefillTokensPerSecond that it computes of prompts, one prompt after the other. For a Decode engine: the tokens per
	// second whose KV cache it takes over.
	PrefillTokensPerSecond float64
	// DecodeTokensPerSecond that it generates, all requests together, and RequestTokensPerSecond of one request at most.
	DecodeTokensPerSecond, RequestTokensPerSecond float64
	// MaxRunning requests in the batch; more wait.
	MaxRunning int
	// KVTokens that fit in the KV cache; requests that would not fit wait.
	KVTokens int
	// PrefixHit is the fraction of prompt tokens found in the prefix cache, 0 to 1.
	PrefixHit float64
}

// Request is one call of a client.
type Request struct {
	Prompt, Output int // tokens
	// Born is when the client sent it, in seconds on the clock that Advance is given.
	Born float64
}

// Counts are the counters of an engine; none ever falls.
type Counts struct {
	Arrived, Finished uint64 // requests
	// Tokens of prompts: looked up in the prefix cache when a request is scheduled, and found there.
	Queried, Hit uint64
	// Tokens of prompts whose prefill has ended, and how many of them were computed here.
	Prompt, Computed uint64
	// Generated tokens, as they come.
	Generated float64
	// Tokens of finished requests.
	FinishedPrompt, FinishedHit, FinishedGenerated uint64
	// Busy seconds of prefill and of decode.
	PrefillSeconds, DecodeSeconds float64
}

// Engine is a queueing model of one engine. A request waits until the batch and the KV cache have room, then its prompt is
// prefilled (on a Decode engine: its KV cache is taken over), one prompt at a time, and its first token is there; the other
// tokens are decoded together with those of all running requests, which share the decode capacity equally. A Prefill or
// Encode engine is done with the first token.
//
// Between two events all rates are constant, so Advance goes from event to event and its result hardly depends on how often
// it is called. Seconds are those of one clock that its user chooses; they may not go back.
type Engine struct {
	engine observe.Engine
	kind   observe.RoleKind
	cap    Capacity

	now     float64
	queue   fifo // waiting for room
	loading fifo // in the batch, being prefilled in order
	decoded float64
	running jobs // in the batch, decoding; the first to finish first
	kv      int  // tokens reserved for requests in the batch
	full    bool // the last request that had to wait lacked KV cache, not batch

	counts   Counts
	hist     histograms
	perToken meter
	perIter  meter
	finished []Request
}

// NewEngine starts an engine at a time.
func NewEngine(engine observe.Engine, kind observe.RoleKind, capacity Capacity, now float64) *Engine {
	e := &Engine{engine: engine, kind: kind, cap: capacity, now: now, hist: newHistograms(engine)}
	e.perToken.histogram, e.perIter.histogram = e.hist.perToken, e.hist.iterationTokens
	return e
}

// Counts so far.
func (e *Engine) Counts() Counts { return e.counts }

// Waiting requests: those without room, and on a vLLM decode engine also those whose KV cache is on its way.
func (e *Engine) Waiting() int {
	if e.kind == observe.Decode && e.engine == observe.VLLM {
		return e.queue.len() + e.loading.len()
	}
	return e.queue.len()
}

// Running requests in execution.
func (e *Engine) Running() int {
	if e.kind == observe.Decode {
		return len(e.running)
	}
	return e.loading.len() + len(e.running)
}

// Transferring requests of a decode engine: their KV cache is on its way.
func (e *Engine) Transferring() int {
	if e.kind != observe.Decode {
		return 0
	}
	return e.loading.len()
}

// Load is the number of requests that it holds.
func (e *Engine) Load() int { return e.queue.len() + e.loading.len() + len(e.running) }

// KVUsage is the fraction of the KV cache that requests in the batch use.
func (e *Engine) KVUsage() float64 {
	if e.cap.KVTokens == 0 {
		return 0
	}
	return math.Min(1, float64(e.kvTokens())/float64(e.cap.KVTokens))
}

// kvTokens in use: whole prompts, and of the answers what has been generated.
func (e *Engine) kvTokens() int {
	used := e.kv
	for _, j := range e.running {
		used -= int(j.ends - e.decoded)
	}
	for _, j := range e.loading.items() {
		used -= j.Output
	}
	return max(0, used)
}

// Submit hands it a request, now.
func (e *Engine) Submit(r Request) {
	e.counts.Arrived++
	r.Prompt, r.Output = max(1, r.Prompt), max(1, r.Output)
	e.queue.push(&job{Request: r, queued: e.now})
	e.admit()
}

// Take returns the requests that finished since it was last called.
func (e *Engine) Take() []Request {
	done := e.finished
	e.finished = nil
	return done
}

// Advance goes on to a time.
func (e *Engine) Advance(to float64) {
	for e.now < to {
		rate := e.requestRate()
		step := math.Min(to-e.now, math.Min(e.untilLoaded(), e.untilDecoded(rate)))
		e.pass(step, rate)
		if e.now+step == e.now { // an event too close for the clock to tell: it is now
			step = 0
		}
		e.now += step
		if to-e.now < 1e-9 {
			e.now = to
		}
		e.settle()
	}
}

// requestRate is the tokens per second that each running request gets.
func (e *Engine) requestRate() float64 {
	if len(e.running) == 0 {
		return 0
	}
	return math.Min(e.cap.RequestTokensPerSecond, e.cap.DecodeTokensPerSecond/float64(len(e.running)))
}

func (e *Engine) untilLoaded() float64 {
	if e.loading.len() == 0 {
		return math.Inf(1)
	}
	return e.loading.head().left / e.cap.PrefillTokensPerSecond
}

func (e *Engine) untilDecoded(rate float64) float64 {
	if len(e.running) == 0 {
		return math.Inf(1)
	}
	return (e.running[0].ends - e.decoded) / rate
}

// pass lets time go by in which nothing ends.
func (e *Engine) pass(seconds, rate float64) {
	if e.loading.len() > 0 {
		e.loading.head().left -= seconds * e.cap.PrefillTokensPerSecond
		e.counts.PrefillSeconds += seconds
	}
	if len(e.running) == 0 {
		return
	}
	n := float64(len(e.running))
	e.decoded += seconds * rate
	e.counts.DecodeSeconds += seconds
	e.counts.Generated += n * seconds * rate
	e.perToken.observe(1/rate, n*seconds*rate)
	e.perIter.observe(n, seconds*rate)
}

// nearly absorbs rounding where a remaining amount of tokens should be zero.
const nearly = 1e-6

// settle ends what is at its end, and fills the room.
func (e *Engine) settle() {
	for e.loading.len() > 0 && e.loading.head().left <= nearly {
		e.loaded(e.loading.pop())
	}
	for len(e.running) > 0 && e.running[0].ends-e.decoded <= nearly {
		e.finish(heap.Pop(&e.running).(*job))
	}
	e.admit()
}
