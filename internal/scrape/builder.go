package scrape

import (
	"math"
	"strconv"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// sample adds the chosen series up.
func (s *scratch) sample(hint observe.Engine) (observe.Sample, error) {
	b := builder{scratch: s}
	b.out.Engine = b.engine(hint)
	if b.out.Engine == "" {
		return observe.Sample{}, s.nothing()
	}
	b.out.ProcessStart = b.mean(b.of("", processStart))
	b.out.Running = b.requests(running)
	b.out.Waiting = b.requests(waiting)
	b.out.TransferQueue = b.requests(transferQueue)
	b.out.KVCacheUsage = b.mean(b.of(b.out.Engine, kvCacheUsage))
	b.counters()
	b.out.TTFT = b.histograms(ttft)
	b.out.ITL = b.histograms(itl)
	return b.out, nil
}

// nothing says that no engine was found.
func (s *scratch) nothing() error {
	if s.ignored {
		return failf(observe.NoEngineSeries, "the exposition has series of other engines than the one numbered 0, which --data-parallel=rank-zero reads alone")
	}
	return failf(observe.NoEngineSeries, "the exposition has no series of vLLM or SGLang: check the port, and that the engine has metrics enabled (some expose none before their first request)")
}

// builder makes the Sample of a scratch.
type builder struct {
	*scratch
	out observe.Sample
}

// engine is the one whose request gauges are there, else the one of which anything is; of several the one that was hinted at.
func (b *builder) engine(hint observe.Engine) observe.Engine {
	var found observe.Engine
	for _, e := range engines {
		if len(b.of(e, running)) > 0 && (found == "" || e == hint) {
			found = e
		}
	}
	for f, m := range b.families {
		if e := families[f].engine; found == "" && e != "" && len(m.series) > 0 {
			found = e
		}
	}
	return found
}

// of is the series of the first family that an engine exposes of a signal (D40).
func (b *builder) of(e observe.Engine, sig signal) []series {
	for f := range families {
		if found := b.families[f].series; len(found) > 0 && families[f].engine == e && families[f].signal == sig {
			return found
		}
	}
	return nil
}

// requests is the sum of a gauge; missing when absent, or when one of its values is unusable.
func (b *builder) requests(sig signal) observe.Value {
	found := b.of(b.out.Engine, sig)
	if len(found) == 0 {
		return observe.Value{}
	}
	total := 0.0
	for _, x := range found {
		if !usable(x.value) {
			b.out.InvalidGauge = families[x.family].name
			return observe.Value{}
		}
		total += x.value
	}
	return observe.Known(total)
}

// mean of the usable values; missing when there is none.
func (b *builder) mean(found []series) observe.Value {
	total, n := 0.0, 0
	for _, x := range found {
		if usable(x.value) {
			total += x.value
			n++
		}
	}
	if n == 0 {
		return observe.Value{}
	}
	return observe.Known(total / float64(n))
}

// counters fills all kinds from one allocation, which lives as long as the Sample and so is no larger than needed.
func (b *builder) counters() {
	n := 0
	for f, m := range b.families {
		if families[f].signal >= counters {
			n += len(m.series)
		}
	}
	all := make([]observe.Counter, 0, n)
	for k := range observe.CounterKinds {
		start := len(all)
		found := b.of(b.out.Engine, counter(k))
		unit := b.tokensPerUnit(found)
		if unit == 0 {
			continue
		}
		for _, x := range found {
			v := x.value * unit
			if !usable(v) {
				b.out.InvalidCounter, v = families[x.family].name, 0
			}
			all = append(all, observe.Counter{Group: x.group, Member: x.member, Value: v})
		}
		b.out.Counters[k] = all[start:len(all):len(all)]
	}
}

// tokensPerUnit is 1, except for prefix hits that count blocks: there the block size, 0 when it is not known (D9).
func (b *builder) tokensPerUnit(found []series) float64 {
	if len(found) == 0 || families[found[0].family].name != vllmOldHits || !b.hitsInBlocks {
		return 1
	}
	for r := labelsOf(b.cacheConfig); ; {
		name, value, ok := r.next()
		if !ok {
			return 0
		}
		if string(name) == "block_size" {
			size, err := strconv.ParseUint(string(value), 10, 16)
			if err != nil {
				return 0
			}
			return float64(size)
		}
	}
}

// histograms reads one histogram per independent engine.
func (b *builder) histograms(sig signal) []observe.Histogram {
	found := b.of(b.out.Engine, sig)
	if len(found) == 0 {
		return nil
	}
	out := make([]observe.Histogram, 0, 1)
	buckets := make([]observe.Bucket, 0, len(found))
	for len(found) > 0 {
		n := 1
		for n < len(found) && found[n].group == found[0].group {
			n++
		}
		start := len(buckets)
		h, counted := observe.Histogram{Group: found[0].group, Member: found[0].member}, false
		for _, x := range found[:n] {
			switch {
			case !usable(x.value) && x.part != sum: // a sum that is none leaves the buckets good
				b.out.InvalidCounter = families[x.family].name
			case !usable(x.value):
			case x.part == sum:
				h.SumSeconds = observe.Known(x.value)
			case x.part == bucket && !math.IsInf(x.le, 1):
				buckets = append(buckets, observe.Bucket{LESeconds: x.le, Count: x.value})
			default: // the count, or the infinite bucket where there is none
				h.Count, counted = x.value, true
			}
		}
		if counted {
			h.Buckets = buckets[start:len(buckets):len(buckets)]
			out = append(out, h)
		}
		found = found[n:]
	}
	return out
}
