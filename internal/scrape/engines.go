package scrape

import (
	"slices"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// signal is what a family feeds.
type signal uint8

const (
	running signal = iota
	waiting
	transferQueue
	kvCacheUsage
	processStart
	ttft
	itl
	counters // counters+k is the observe.CounterKind k
)

func counter(k observe.CounterKind) signal { return counters + signal(k) }

func (s signal) histogram() bool { return s == ttft || s == itl }

// family is one name under which an engine exposes a signal.
type family struct {
	engine observe.Engine
	signal signal
	// name of the samples; of a histogram, without the suffix.
	name string
	// label with one of values selects series of the family; no label: all. An absent label reads as "".
	label  string
	values []string
}

// accepts says whether a series with this value of the family's label belongs to it.
func (f *family) accepts(value []byte) bool {
	return slices.ContainsFunc(f.values, func(v string) bool { return v == string(value) })
}

var engines = []observe.Engine{observe.VLLM, observe.SGLang}

// families of all engines. Of several that feed one signal of an engine the first that is exposed is read and the others are
// not: newer names stand before older ones (D40).
var families = slices.Concat(vllmFamilies, sglangFamilies, []family{
	{signal: processStart, name: "process_start_time_seconds"},
})

// part is what a sample line is of its family.
type part uint8

const (
	value part = iota
	bucket
	count
	sum
)

// meaning is what a sample name stands for: families[first:last] share it, since labels tell them apart.
type meaning struct {
	first, last int
	part        part
}

// meanings of every needed sample name.
var meanings = func() map[string]meaning {
	m := map[string]meaning{}
	for i, f := range families {
		if f.signal.histogram() {
			m[f.name+"_bucket"] = meaning{i, i + 1, bucket}
			m[f.name+"_sum"] = meaning{i, i + 1, sum}
			m[f.name+"_count"] = meaning{i, i + 1, count}
			continue
		}
		known, found := m[f.name]
		if !found {
			known.first = i
		}
		known.last = i + 1
		m[f.name] = known
	}
	return m
}()
