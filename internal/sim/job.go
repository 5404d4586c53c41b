package sim

import (
	"container/heap"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// job is a request on its way through one engine.
type job struct {
	Request
	queued, admitted, loaded float64 // seconds
	hit                      int     // prompt tokens found in the prefix cache
	left                     float64 // prompt tokens still to load
	ends                     float64 // Engine.decoded at its last token
}

// admit moves requests from the queue into the batch while there is room. A request that could never fit is let in alone.
func (e *Engine) admit() {
	for e.queue.len() > 0 {
		next := e.queue.head()
		batch := e.loading.len() + len(e.running)
		e.full = batch > 0 && e.kv+next.Prompt+next.Output > e.cap.KVTokens
		if e.full || batch >= e.cap.MaxRunning {
			return
		}
		e.schedule(e.queue.pop())
	}
	e.full = false
}

func (e *Engine) schedule(j *job) {
	j.admitted = e.now
	j.left = float64(j.Prompt)
	if e.kind != observe.Decode {
		j.hit = min(j.Prompt-1, int(e.cap.PrefixHit*float64(j.Prompt))) // the last token is always computed
		j.left -= float64(j.hit)
		e.counts.Queried += uint64(j.Prompt)
		e.counts.Hit += uint64(j.hit)
	}
	e.kv += j.Prompt + j.Output
	e.hist.queue.Observe(e.now-j.queued, 1)
	e.loading.push(j)
}

// loaded: the prompt is in the KV cache and the first token is there.
func (e *Engine) loaded(j *job) {
	j.loaded = e.now
	e.counts.Prompt += uint64(j.Prompt)
	if e.kind != observe.Decode {
		e.counts.Computed += uint64(j.Prompt - j.hit)
	}
	e.counts.Generated++
	e.hist.prefill.Observe(e.now-j.admitted, 1)
	e.hist.firstToken.Observe(e.now-e.asked(j), 1)
	if j.ends = e.decoded + float64(e.tokens(j)-1); e.tokens(j) == 1 {
		e.finish(j)
		return
	}
	heap.Push(&e.running, j)
}

func (e *Engine) finish(j *job) {
	tokens := e.tokens(j)
	e.kv -= j.Prompt + j.Output
	e.counts.Finished++
	e.counts.FinishedPrompt += uint64(j.Prompt)
	e.counts.FinishedHit += uint64(j.hit)
	e.counts.FinishedGenerated += uint64(tokens)
	e.hist.endToEnd.Observe(e.now-e.asked(j), 1)
	e.hist.inference.Observe(e.now-j.admitted, 1)
	e.hist.decode.Observe(e.now-j.loaded, 1)
	e.hist.requestPerToken.Observe((e.now-j.loaded)/float64(max(1, tokens-1)), 1)
	e.hist.promptTokens.Observe(float64(j.Prompt), 1)
	e.hist.computedTokens.Observe(float64(j.Prompt-j.hit), 1)
	e.hist.generatedTokens.Observe(float64(tokens), 1)
	e.finished = append(e.finished, j.Request)
}

// tokens that this engine generates for a request: a Prefill or Encode engine is done with the first.
func (e *Engine) tokens(j *job) int {
	if e.kind == observe.Prefill || e.kind == observe.Encode {
		return 1
	}
	return j.Output
}

// asked is when the request reached the server as far as its latencies are concerned: both halves of an SGLang pair are
// asked at once, so its decode half counts from the beginning.
func (e *Engine) asked(j *job) float64 {
	if e.engine == observe.SGLang && e.kind == observe.Decode {
		return j.Born
	}
	return j.queued
}

// jobs is a heap by the end of decoding.
type jobs []*job

func (h jobs) Len() int           { return len(h) }
func (h jobs) Less(i, j int) bool { return h[i].ends < h[j].ends }
func (h jobs) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *jobs) Push(x any)        { *h = append(*h, x.(*job)) }
func (h *jobs) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	return last
}

// fifo is a queue of jobs that forgets what was taken.
type fifo struct {
	list  []*job
	first int
}

func (f *fifo) len() int      { return len(f.list) - f.first }
func (f *fifo) head() *job    { return f.list[f.first] }
func (f *fifo) push(j *job)   { f.list = append(f.list, j) }
func (f *fifo) items() []*job { return f.list[f.first:] }

func (f *fifo) pop() *job {
	j := f.list[f.first]
	f.list[f.first] = nil
	f.first++
	if f.first > 64 && f.first*2 > len(f.list) {
		n := copy(f.list, f.list[f.first:])
		clear(f.list[n:])
		f.list, f.first = f.list[:n], 0
	}
	return j
}
