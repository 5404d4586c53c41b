package scrape

import "bytes"

// filter finds the needed lines of body, takes those that are known, and copies the others for the parser. It says whether it
// met the end mark of OpenMetrics, which it does not read beyond.
func (s *scratch) filter(body []byte, known *memory) (ended bool) {
	known.mu.RLock()
	defer known.mu.RUnlock()
	defer func() { s.name = nil }() // do not hold the body
	for number := 1; len(body) > 0; number++ {
		var text []byte
		if end := bytes.IndexByte(body, '\n'); end >= 0 {
			text, body = body[:end], body[end+1:]
		} else {
			text, body = body, nil
		}
		text = trim(text)
		if len(text) == 0 {
			continue
		}
		if text[0] == '#' {
			if string(text) == "# EOF" {
				return true
			}
			s.comment(text)
			continue
		}
		if m, needed := s.lookup(text); needed {
			s.take(text, line{number: number, meaning: m}, known)
		}
	}
	return false
}

// trim drops spaces before a line and the carriage return after it.
func trim(text []byte) []byte {
	if n := len(text); n > 0 && text[n-1] == '\r' {
		text = text[:n-1]
	}
	for len(text) > 0 && (text[0] == ' ' || text[0] == '\t') {
		text = text[1:]
	}
	return text
}

// comment looks for the one help text that changes a meaning: old vLLM counted prefix hits in blocks (D9).
func (s *scratch) comment(text []byte) {
	if bytes.HasPrefix(text, []byte(vllmOldHitsHelp)) && bytes.Contains(text, []byte("block")) {
		s.hitsInBlocks = true
	}
}

// lookup says what a sample line stands for, by its name alone.
func (s *scratch) lookup(text []byte) (meaning, bool) {
	if n := len(s.name); n > 0 && len(text) > n && endsName(text[n]) && string(text[:n]) == string(s.name) {
		return s.last, s.known
	}
	if !mayBeNeeded(text) {
		return meaning{}, false
	}
	s.name = text
	for _, end := range []byte("{ \t") {
		if n := bytes.IndexByte(s.name, end); n >= 0 {
			s.name = s.name[:n]
		}
	}
	s.last, s.known = meanings[string(s.name)]
	if string(s.name) == vllmCacheConfig {
		s.cacheConfig = append(s.cacheConfig[:0], text[:min(len(text), 4096)]...)
	}
	return s.last, s.known
}

func mayBeNeeded(text []byte) bool {
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

// take adds the series of a needed line when it is known, and leaves the line to the parser otherwise.
func (s *scratch) take(text []byte, l line, known *memory) {
	if size, number, plain := split(text); plain {
		if x, found := known.series[keyOf(text[:size])]; found {
			s.add(x, number)
			return
		}
		l.size = size
	}
	s.kept = append(append(s.kept, text...), '\n')
	s.lines = append(s.lines, l)
}

// add keeps a series with its value, unless it is one that is not read.
func (s *scratch) add(x series, v float64) {
	if x.ignored {
		s.ignored = s.ignored || s.mode == RankZero
		return
	}
	x.value = v
	if n := len(s.runs); n > 0 && s.runs[n-1].family == x.family && s.runs[n-1].group == x.group {
		s.runs[n-1].end++
	} else {
		s.runs = append(s.runs, run{x.family, x.group, len(s.series), len(s.series) + 1})
	}
	s.series = append(s.series, x)
}
