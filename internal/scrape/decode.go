package scrape

import (
	"mime"
	"strings"
	"sync"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// DataParallel says what of an endpoint's independent engines is read (D6).
type DataParallel string

// The modes: all engines behind the endpoint, or the one numbered zero alone.
const (
	Sum      DataParallel = "sum"
	RankZero DataParallel = "rank-zero"
)

// Decoder makes Samples of expositions. It remembers how series read, whichever Pod exposed them, so that in the steady state a
// needed line costs one look-up and one number. Many goroutines may use one.
type Decoder struct {
	mode               DataParallel
	knownInText        memory
	knownInOpenMetrics memory
}

// NewDecoder makes a Decoder.
func NewDecoder(mode DataParallel) *Decoder { return &Decoder{mode: mode} }

// Result is what an exposition says.
type Result struct {
	Sample observe.Sample
	// Series is how many needed series were read.
	Series int
	// Bytes of the body, decompressed.
	Bytes int
}

// Decode reads a whole exposition body. contentType is the header of the response; empty reads as text 0.0.4. hint is the engine
// to read where the series of several are exposed; empty: none. Lines that are not needed are skipped unread; a needed line
// that is malformed or repeated fails the whole (D39) with an *Error.
func (d *Decoder) Decode(body []byte, contentType string, hint observe.Engine) (Result, error) {
	result := Result{Bytes: len(body)}
	openMetrics, err := isOpenMetrics(contentType)
	if err != nil {
		return result, err
	}
	known := &d.knownInText
	if openMetrics {
		known = &d.knownInOpenMetrics
	}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	s.reset(d.mode)
	if ended := s.filter(body, known); openMetrics && !ended {
		return result, failf(observe.Malformed, "the exposition is cut short: no # EOF at its end")
	}
	if err := s.parse(openMetrics, known); err != nil {
		return result, err
	}
	result.Series = len(s.series)
	if err := s.choose(); err != nil {
		return result, err
	}
	result.Sample, err = s.sample(hint)
	return result, err
}

// EngineNamed is the engine that a deployment names, in whatever case; empty when it is none that is known.
func EngineNamed(name string) observe.Engine {
	for _, e := range engines {
		if strings.EqualFold(name, string(e)) {
			return e
		}
	}
	return ""
}

// textType is what engines send with plain text.
const textType = "text/plain; version=0.0.4; charset=utf-8"

func isOpenMetrics(contentType string) (bool, error) {
	if contentType == "" || contentType == textType {
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
	kept  []byte // needed lines that are not known, for the parser
	lines []line // of kept
	name  []byte // of the latest sample line, with what it stands for: lines of a family follow each other
	last  meaning
	known bool

	ignored      bool   // something was, in rank-zero mode
	hitsInBlocks bool   // old vLLM
	cacheConfig  []byte // old vLLM: the line that has the block size

	series   []series // as read
	runs     []run
	sorted   []series // by family
	families []members
}

// run is a stretch of series that follow each other in a body and belong to one group.
type run struct {
	family     int
	group      uint64
	start, end int // in series
}

// members are the series of one family, sorted, and then chosen.
type members struct{ series []series }

// line is a needed line that is left to the parser.
type line struct {
	number  int
	meaning meaning
	size    int // of its series, when it has the form that can be known
}

var scratches = sync.Pool{New: func() any { return &scratch{families: make([]members, len(families))} }}

func (s *scratch) reset(mode DataParallel) {
	clear(s.families)
	*s = scratch{
		mode: mode, kept: s.kept[:0], lines: s.lines[:0], cacheConfig: s.cacheConfig[:0],
		series: s.series[:0], runs: s.runs[:0], sorted: s.sorted[:0], families: s.families,
	}
}
