package scrape

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"strconv"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// DataParallel says what of an endpoint's independent engines is read (D6).
type DataParallel string

// The modes: all engines behind the endpoint, or the one numbered zero alone.
const (
	Sum      DataParallel = "sum"
	RankZero DataParallel = "rank-zero"
)

// Decode reads a whole exposition body. contentType is the header of the response; empty reads as text 0.0.4. Lines that are
// not needed are skipped unread; a needed line that is malformed or repeated fails the whole (D39) with an *Error.
func Decode(body []byte, contentType string, mode DataParallel) (observe.Sample, error) {
	openMetrics, err := isOpenMetrics(contentType)
	if err != nil {
		return observe.Sample{}, err
	}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	s.reset(mode)
	if ended := s.filter(body); openMetrics && !ended {
		return observe.Sample{}, failf(observe.Malformed, "the exposition is cut short: no # EOF at its end")
	}
	if err := s.parse(openMetrics); err != nil {
		return observe.Sample{}, err
	}
	return s.sample()
}

func isOpenMetrics(contentType string) (bool, error) {
	if contentType == "" {
		return false, nil
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false, failf(observe.Malformed, "reading the content type: %w", err)
	}
	switch media {
	case "text/plain":
		return false, nil
	case "application/openmetrics-text":
		return true, nil
	}
	return false, failf(observe.Malformed, "the answer is no exposition but %.64q: check the port and path of the scrape annotations", media)
}

// scratch is what decoding one body needs; reused, so that a steady sampler allocates nearly nothing.
type scratch struct {
	mode  DataParallel
	kept  []byte // the needed lines
	lines []line // of kept
	name  []byte // of the latest sample line, with what it stands for: lines of a family follow each other
	last  meaning
	known bool

	hitsInBlocks bool   // old vLLM
	cacheConfig  []byte // old vLLM: the line that has the block size

	series []series
	totals []bool // by family: has a series without priority
}

// line is a needed line.
type line struct {
	number  int
	meaning meaning
}

var scratches = sync.Pool{New: func() any { return &scratch{totals: make([]bool, len(families))} }}

func (s *scratch) reset(mode DataParallel) {
	clear(s.totals)
	*s = scratch{mode: mode, kept: s.kept[:0], lines: s.lines[:0], series: s.series[:0], totals: s.totals}
}

// filter copies the needed lines of body and says whether it met the end mark of OpenMetrics, which it does not read beyond.
func (s *scratch) filter(body []byte) (ended bool) {
	defer func() { s.name = nil }() // do not hold the body
	for number := 1; len(body) > 0; number++ {
		var text []byte
		if end := bytes.IndexByte(body, '\n'); end >= 0 {
			text, body = body[:end], body[end+1:]
		} else {
			text, body = body, nil
		}
		text = bytes.TrimSuffix(text, []byte("\r"))
		for len(text) > 0 && (text[0] == ' ' || text[0] == '\t') {
			text = text[1:]
		}
		if len(text) > 0 && text[0] == '#' {
			if string(text) == "# EOF" {
				return true
			}
			s.comment(text)
			continue
		}
		if m, needed := s.lookup(text); needed {
			s.kept = append(append(s.kept, text...), '\n')
			s.lines = append(s.lines, line{number, m})
		}
	}
	return false
}

// comment looks for the one help text that changes a meaning: old vLLM counted prefix hits in blocks (D9).
func (s *scratch) comment(text []byte) {
	if bytes.HasPrefix(text, []byte(vllmOldHitsHelp)) && bytes.Contains(text, []byte("block")) {
		s.hitsInBlocks = true
	}
}

// lookup says what a sample line stands for, by its name alone.
func (s *scratch) lookup(text []byte) (meaning, bool) {
	if n := len(s.name); n > 0 && len(text) > n && endsName(text[n]) && bytes.Equal(text[:n], s.name) {
		return s.last, s.known
	}
	if !mayBeNeeded(text) {
		return meaning{}, false
	}
	n := 0
	for n < len(text) && !endsName(text[n]) {
		n++
	}
	s.name = text[:n]
	s.last, s.known = meanings[string(s.name)]
	if string(s.name) == vllmCacheConfig {
		s.cacheConfig = append(s.cacheConfig[:0], text[:min(len(text), 4096)]...)
	}
	return s.last, s.known
}

func mayBeNeeded(text []byte) bool {
	if len(text) == 0 {
		return false
	}
	switch text[0] {
	case 'v':
		return bytes.HasPrefix(text, []byte(vllmPrefix))
	case 's':
		return bytes.HasPrefix(text, []byte(sglangPrefix))
	case 'p':
		return bytes.HasPrefix(text, []byte("process_start"))
	}
	return false
}

func endsName(c byte) bool { return c == '{' || c == ' ' || c == '\t' }

// parse reads the needed lines.
func (s *scratch) parse(openMetrics bool) error {
	var p textparse.Parser
	if openMetrics {
		p = textparse.NewOpenMetricsParser(append(s.kept, "# EOF\n"...), labels.NewSymbolTable())
	} else {
		p = textparse.NewPromParser(s.kept, labels.NewSymbolTable(), false)
	}
	for _, l := range s.lines {
		entry, err := p.Next()
		if err != nil || entry != textparse.EntrySeries {
			return malformed(l)
		}
		text, _, v := p.Series()
		// A quote that is not closed would swallow the next line.
		if bytes.IndexByte(text, '\n') >= 0 || !s.add(l.meaning, text, v) {
			return malformed(l)
		}
	}
	if _, err := p.Next(); !errors.Is(err, io.EOF) {
		return failf(observe.Malformed, "a line of the exposition is malformed")
	}
	return s.choose()
}

// malformed never quotes the line: it is somebody else's text.
func malformed(l line) error {
	return failf(observe.Malformed, "line %d is malformed (%s)", l.number, families[l.meaning.first].name)
}

// add keeps one series; false when it makes no sense.
func (s *scratch) add(m meaning, text []byte, v float64) bool {
	x := series{part: m.part, value: v}
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
				return false
			}
			x.le = le
			continue
		}
		if !s.identify(&x, name, value) {
			return true // another engine than the one asked for
		}
	}
	for f := m.first; f < m.last; f++ {
		if label == "" || families[f].accepts(selected) {
			x.family = f
			x.group = mix(x.group + uint64(f))
			s.totals[f] = s.totals[f] || !x.priority
			s.series = append(s.series, x)
			break
		}
	}
	return true
}

// identify puts a label where it belongs; false when the series is not to be read at all.
func (s *scratch) identify(x *series, name, value []byte) bool {
	hash := hashLabel(name, value)
	x.full += hash
	if shift, rank := rankShift(name); rank {
		x.member |= rankOf(value) << shift
		return true
	}
	switch string(name) {
	case "pid":
		return true
	case "priority":
		x.priority = true
	case "engine", "dp_rank":
		if s.mode == RankZero && string(value) != "0" {
			return false
		}
	}
	x.group += hash
	return true
}
