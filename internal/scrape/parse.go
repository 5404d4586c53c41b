package scrape

import (
	"bytes"
	"errors"
	"io"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// parse reads the needed lines that are not known, and learns them.
func (s *scratch) parse(openMetrics bool, known *memory) error {
	if len(s.lines) == 0 {
		return nil
	}
	p := s.parser(openMetrics)
	keys, learnt := make([]uint64, 0, len(s.lines)), make([]series, 0, len(s.lines))
	for _, l := range s.lines {
		entry, err := p.Next()
		if err != nil || entry != textparse.EntrySeries {
			return malformed(l)
		}
		text, _, v := p.Series()
		// A quote that is not closed would swallow the next line.
		if bytes.IndexByte(text, '\n') >= 0 {
			return malformed(l)
		}
		x, sensible := s.describe(l.meaning, text)
		if !sensible {
			return malformed(l)
		}
		s.add(x, v)
		if len(text) == l.size {
			keys, learnt = append(keys, keyOf(text)), append(learnt, x)
		}
	}
	if _, err := p.Next(); !errors.Is(err, io.EOF) {
		return failf(observe.Malformed, "a line of the exposition is malformed")
	}
	known.learn(keys, learnt)
	return nil
}

func (s *scratch) parser(openMetrics bool) textparse.Parser {
	if openMetrics {
		s.kept = append(s.kept, "# EOF\n"...)
		return textparse.NewOpenMetricsParser(s.kept, labels.NewSymbolTable())
	}
	return textparse.NewPromParser(s.kept, labels.NewSymbolTable(), false)
}

// malformed never quotes the line: it is somebody else's text.
func malformed(l line) error {
	return failf(observe.Malformed, "line %d is malformed (%s)", l.number, families[l.meaning.first].name)
}

// describe reads the text of a series; false when it makes no sense.
func (s *scratch) describe(m meaning, text []byte) (x series, sensible bool) {
	x.part = m.part
	label, selected := families[m.first].label, []byte(nil)
	for r := labelsOf(text); ; {
		name, value, ok := r.next()
		if !ok {
			break
		}
		if len(value) == 0 {
			continue // the same as an absent label
		}
		if string(name) == label {
			selected = value
		}
		if string(name) == "le" && m.part == bucket {
			le, err := strconv.ParseFloat(string(value), 64)
			if err != nil || !(le >= 0) { // a latency is not negative, and NaN is not anything
				return series{}, false
			}
			x.le = le
			continue
		}
		s.identify(&x, name, value)
	}
	x.belong(m, label, selected)
	return x, true
}

// identify puts a label where it belongs.
func (s *scratch) identify(x *series, name, value []byte) {
	hash := hashLabel(name, value)
	x.full += hash
	if shift, rank := rankShift(name); rank {
		x.member |= rankOf(value) << shift
		return
	}
	switch string(name) {
	case "pid":
		return
	case "priority":
		x.priority = true
	case "engine", "dp_rank":
		if s.mode == RankZero && string(value) != "0" {
			x.ignored = true // another engine than the one asked for
		}
	}
	x.group += hash
}

// belong finds the family of a series among those that share its name.
func (x *series) belong(m meaning, label string, selected []byte) {
	for f := m.first; f < m.last; f++ {
		if label == "" || families[f].accepts(selected) {
			x.family = f
			x.group = mix(x.group + uint64(f))
			return
		}
	}
	x.ignored = true
}
