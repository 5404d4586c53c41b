package sim

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strconv"
	"time"
)

// Trace is recorded traffic: requests in order of arrival, Born in seconds since the trace began.
type Trace []Request

// Arrivals implements Traffic.
func (t Trace) Arrivals(dst []Request, from, to float64) []Request {
	first := 0 // a span that begins at zero includes zero
	if from > 0 {
		first = sort.Search(len(t), func(i int) bool { return t[i].Born > from })
	}
	for _, r := range t[first:] {
		if r.Born > to {
			break
		}
		dst = append(dst, r)
	}
	return dst
}

// maxTokens bounds what a trace may ask of one request, so that a slip of a column is noticed.
const maxTokens = 10_000_000

// ReadTrace reads a CSV of time, prompt tokens, output tokens; a heading is skipped. Times are seconds, or UTC timestamps
// like "2026-01-31 12:00:00.5"; the first one becomes zero. Errors name the line.
func ReadTrace(r io.Reader) (Trace, error) {
	rows := csv.NewReader(r)
	rows.FieldsPerRecord = 3
	rows.ReuseRecord = true
	var trace Trace
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return trace.fromZero(), nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading traffic: %w", err)
		}
		line, _ := rows.FieldPos(0)
		request, err := parseRow(row)
		if err != nil && line == 1 {
			continue // the heading
		}
		if err != nil {
			return nil, fmt.Errorf("reading traffic, line %d: %w", line, err)
		}
		trace = append(trace, request)
	}
}

func (t Trace) fromZero() Trace {
	slices.SortStableFunc(t, func(a, b Request) int { return cmp.Compare(a.Born, b.Born) })
	if len(t) > 0 {
		begin := t[0].Born
		for i := range t {
			t[i].Born -= begin
		}
	}
	return t
}

func parseRow(row []string) (Request, error) {
	at, err := parseTime(row[0])
	if err != nil {
		return Request{}, err
	}
	prompt, err := parseTokens(row[1])
	if err != nil {
		return Request{}, err
	}
	output, err := parseTokens(row[2])
	return Request{Born: at, Prompt: prompt, Output: output}, err
}

func parseTime(s string) (float64, error) {
	if seconds, err := strconv.ParseFloat(s, 64); err == nil && !math.IsNaN(seconds) && !math.IsInf(seconds, 0) {
		return seconds, nil
	}
	at, err := time.Parse("2006-01-02 15:04:05.999999999", s)
	if err != nil {
		return 0, fmt.Errorf("%q is neither seconds nor a timestamp like 2026-01-31 12:00:00.5", s)
	}
	return float64(at.UnixNano()) / 1e9, nil
}

func parseTokens(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > maxTokens {
		return 0, fmt.Errorf("%q is no number of tokens between 0 and %d", s, maxTokens)
	}
	return n, nil
}
