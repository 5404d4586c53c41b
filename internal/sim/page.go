package sim

import (
	"math"
	"strconv"
	"time"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// Page is what a page says about its engine beside the metrics of the model.
type Page struct {
	Model        string
	Started, Now time.Time
}

// AppendPage appends the /metrics page of the engine, in the Prometheus text format.
func (e *Engine) AppendPage(dst []byte, p Page) []byte {
	if e.engine == observe.SGLang {
		return e.appendSGLang(dst, p)
	}
	return e.appendVLLM(dst, p)
}

// writer writes families of series as the engines' Prometheus client prints them.
type writer struct {
	b []byte
	// order of the parts of a histogram: the multiprocess registry prints the sum first.
	sumFirst bool
}

// family begins a family of series.
func (w *writer) family(name, kind, help string) {
	w.b = append(w.b, "# HELP "...)
	w.b = append(append(append(w.b, name...), ' '), help...)
	w.b = append(append(w.b, "\n# TYPE "...), name...)
	w.b = append(append(append(w.b, ' '), kind...), '\n')
}

// sample writes one series; labels as between the braces, sorted.
func (w *writer) sample(name, labels string, value float64) {
	w.series(name, "", labels, value)
}

func (w *writer) series(name, suffix, labels string, value float64) {
	w.b = append(append(w.b, name...), suffix...)
	if labels != "" {
		w.b = append(append(append(w.b, '{'), labels...), '}')
	}
	w.b = append(appendNumber(append(w.b, ' '), value), '\n')
}

// gauge is a family of one series.
func (w *writer) gauge(name, help, labels string, value float64) {
	w.family(name, "gauge", help)
	w.sample(name, labels, value)
}

// buckets writes a histogram. The label le goes between before and after, so that labels stay sorted.
func (w *writer) buckets(name, before, after string, h *Histogram) {
	labels := join(before, after)
	if w.sumFirst {
		w.series(name, "_sum", labels, h.Sum)
	}
	var below uint64
	for n, count := range h.Counts {
		below += count
		w.bucket(name, before, after, h.bound(n), below)
	}
	w.series(name, "_count", labels, float64(below))
	if !w.sumFirst {
		w.series(name, "_sum", labels, h.Sum)
	}
}

func (w *writer) bucket(name, before, after string, le float64, count uint64) {
	w.b = append(append(w.b, name...), "_bucket{"...)
	if before != "" {
		w.b = append(append(w.b, before...), ',')
	}
	w.b = append(appendNumber(append(w.b, `le="`...), le), '"')
	if after != "" {
		w.b = append(append(w.b, ','), after...)
	}
	w.b = append(appendNumber(append(w.b, "} "...), float64(count)), '\n')
}

func join(before, after string) string {
	if before == "" || after == "" {
		return before + after
	}
	return before + "," + after
}

// appendNumber writes a float as Python does: always a fraction, an exponent from a million on.
func appendNumber(b []byte, v float64) []byte {
	switch abs := math.Abs(v); {
	case math.IsInf(v, 1):
		return append(b, "+Inf"...)
	case math.IsNaN(v):
		return append(b, "NaN"...)
	case abs >= 1e6 || abs > 0 && abs < 1e-4:
		return strconv.AppendFloat(b, v, 'e', -1, 64)
	case v == math.Trunc(v):
		return append(strconv.AppendInt(b, int64(v), 10), ".0"...)
	default:
		return strconv.AppendFloat(b, v, 'f', -1, 64)
	}
}

// quote makes a label value safe.
func quote(s string) string {
	b := make([]byte, 0, len(s))
	for _, c := range []byte(s) {
		switch c {
		case '\\', '"':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		default:
			b = append(b, c)
		}
	}
	return string(b)
}
