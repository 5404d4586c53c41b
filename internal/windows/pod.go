package windows

import (
	"time"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// maxElapsed between two scrapes that are compared: 3 intervals, at least 300 s (D7).
func maxElapsed(interval time.Duration) time.Duration {
	return max(3*interval, 300*time.Second)
}

// baseline is what the next scrape of a Pod is compared with.
type baseline struct {
	incarnation string
	at          time.Time
	sample      observe.Sample
	// lost says that series of this incarnation have vanished before: one that appears may be one that returns, with all it
	// has ever counted, so it is not counted from zero any more.
	lost bool
}

// flow is what happened on one Pod between two scrapes. Rates are tokens per second.
type flow struct {
	prompt, rawPrompt, generation float64
	ttft, itl                     []histogramDelta
}

// flowTo compares two scrapes of one Pod; with a reason there is no flow and next is a new beginning (D7).
func (b *baseline) flowTo(next *baseline, interval time.Duration) (flow, observe.UncoveredReason) {
	if b.restarted(next) {
		return flow{}, observe.Reset
	}
	next.lost = b.lost
	elapsed := next.at.Sub(b.at)
	if elapsed > maxElapsed(interval) {
		return flow{}, observe.NoBaseline
	}
	c := comparison{before: &b.sample, after: &next.sample, fromZero: !b.lost}
	tokens := c.counters()
	ttft := c.histograms(b.sample.TTFT, next.sample.TTFT)
	itl := c.histograms(b.sample.ITL, next.sample.ITL)
	if c.broken {
		next.lost = b.lost || c.vanished
		return flow{}, observe.Reset
	}
	seconds := elapsed.Seconds()
	return flow{
		prompt:     c.promptDemand(tokens) / seconds,
		rawPrompt:  tokens[observe.PromptTokens] / seconds,
		generation: c.generation(tokens) / seconds,
		ttft:       ttft,
		itl:        itl,
	}, ""
}

// restarted says that next is another process than b.
func (b *baseline) restarted(next *baseline) bool {
	old, now := b.sample.ProcessStart, next.sample.ProcessStart
	return b.incarnation != next.incarnation || b.sample.Engine != next.sample.Engine || (old.Valid && now.Valid && old != now)
}

// comparison compares the counters of two samples of one process.
type comparison struct {
	before, after *observe.Sample
	fromZero      bool // what is in after alone counts from zero (D8)
	broken        bool // a counter fell, vanished or is read from another rank
	vanished      bool
}

// counters are the tokens counted between the samples, by kind. A kind that neither has is zero: its engine is there (D8).
func (c *comparison) counters() (tokens [observe.CounterKinds]float64) {
	for k := range observe.CounterKinds {
		tokens[k] = c.counter(c.before.Counters[k], c.after.Counters[k])
	}
	return tokens
}

// counter walks two lists that are sorted by group.
func (c *comparison) counter(before, after []observe.Counter) float64 {
	sum, i := 0.0, 0
	for _, now := range after {
		if i < len(before) && before[i].Group < now.Group {
			break
		}
		if i == len(before) || before[i].Group != now.Group {
			c.appeared()
			sum += now.Value
			continue
		}
		if now.Member != before[i].Member || now.Value < before[i].Value {
			c.broken = true
		}
		sum += now.Value - before[i].Value
		i++
	}
	if i < len(before) {
		c.broken, c.vanished = true, true
	}
	return sum
}

// appeared notes a series that was not there before.
func (c *comparison) appeared() {
	if !c.fromZero {
		c.broken = true
	}
}
