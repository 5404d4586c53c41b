package scrape

import (
	"cmp"
	"errors"
	"slices"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// series is one needed sample line.
type series struct {
	family   int
	part     part
	ignored  bool   // not to be read: of another engine or kind than is asked for
	priority bool   // one of the parts of a total (D6)
	group    uint64 // all labels but those that number copies of one engine
	member   uint64 // the copy
	full     uint64 // all labels but le
	le       float64
	value    float64
}

// compareSeries orders the series of one family; only the same series twice are equal.
func compareSeries(a, b series) int {
	switch { // cheaper than cmp.Or, which computes all of them
	case a.group != b.group:
		return cmp.Compare(a.group, b.group)
	case a.member != b.member:
		return cmp.Compare(a.member, b.member)
	case a.part != b.part:
		return cmp.Compare(a.part, b.part)
	case a.le != b.le:
		return cmp.Compare(a.le, b.le)
	default:
		return cmp.Compare(a.full, b.full)
	}
}

// choose leaves, of each group, the series of its lowest rank: totals without their parts, and of what differs by process
// alone the largest (D6). A series that is there twice fails the scrape.
func (s *scratch) choose() error {
	s.sort()
	for f := range s.families {
		if err := s.families[f].choose(); err != nil {
			return failf(observe.Malformed, "a series of %s is exposed twice", families[f].name)
		}
	}
	return nil
}

// sort orders the series by family and then as compareSeries does. Engines expose the series of a group in order, so that
// moving runs is nearly all there is to do.
func (s *scratch) sort() {
	slices.SortFunc(s.runs, func(a, b run) int {
		if a.family != b.family {
			return cmp.Compare(a.family, b.family)
		}
		return cmp.Compare(a.group, b.group)
	})
	s.sorted = slices.Grow(s.sorted, len(s.series))
	for _, r := range s.runs {
		m := &s.families[r.family]
		start := len(s.sorted) - len(m.series)
		s.sorted = append(s.sorted, s.series[r.start:r.end]...)
		m.series = s.sorted[start:]
	}
	for _, m := range s.families {
		if !slices.IsSortedFunc(m.series, compareSeries) {
			slices.SortFunc(m.series, compareSeries)
		}
	}
}

var errTwice = errors.New("exposed twice")

func (m *members) choose() error {
	totals := slices.ContainsFunc(m.series, func(x series) bool { return !x.priority })
	chosen := m.series[:0]
	for i, x := range m.series {
		if i > 0 && compareSeries(m.series[i-1], x) == 0 {
			return errTwice
		}
		if x.priority && totals {
			continue
		}
		if n := len(chosen); n > 0 && chosen[n-1].group == x.group {
			last := &chosen[n-1]
			if last.member != x.member {
				continue
			}
			if last.part == x.part && last.le == x.le {
				last.value = larger(last.value, x.value)
				continue
			}
		}
		chosen = append(chosen, x)
	}
	m.series = chosen
	return nil
}

// larger prefers a usable value.
func larger(a, b float64) float64 {
	if !usable(a) || (usable(b) && b > a) {
		return b
	}
	return a
}

// usable says whether a value can be a count, a fraction or a sum of seconds. The upper end keeps every later sum finite.
func usable(v float64) bool { return v >= 0 && v <= 1e18 }
