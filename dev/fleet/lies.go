package fleet

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// Series that schedulers tell their load by.
var (
	runningSeries = []string{"vllm:num_requests_running", "sglang:num_running_reqs"}
	waitingSeries = []string{"vllm:num_requests_waiting", "sglang:num_queue_reqs", "sglang:num_decode_transfer_queue_reqs"}
	countedAs     = []string{"_total", "_bucket", "_count", "_sum"}
)

// absurd is a count of waiting requests that no engine can have.
const absurd = 1e12

// lie changes values of a page and leaves it well formed; times is how often it has lied. A fault that is no lie changes nothing.
func lie(page []byte, kind Fault, times int32) []byte {
	switch kind {
	case LiesIdle:
		return rewrite(page, func(name string, value float64) float64 {
			if slices.Contains(runningSeries, name) || slices.Contains(waitingSeries, name) {
				return 0
			}
			return value
		})
	case LiesSwamped:
		return rewrite(page, func(name string, value float64) float64 {
			if slices.Contains(waitingSeries, name) {
				return absurd
			}
			return value
		})
	case LiesJumping:
		factor := []float64{0.5, 3}[times%2]
		return rewrite(page, func(name string, value float64) float64 {
			if slices.ContainsFunc(countedAs, func(suffix string) bool { return strings.HasSuffix(name, suffix) }) {
				return value * factor
			}
			return value
		})
	}
	return page
}

// rewrite gives every sample another value.
func rewrite(page []byte, value func(name string, value float64) float64) []byte {
	var out []byte
	for line := range bytes.Lines(page) {
		at := bytes.LastIndexByte(line, ' ')
		if line[0] == '#' || at < 0 {
			out = append(out, line...)
			continue
		}
		name := line[:bytes.IndexAny(line, "{ ")]
		before, _ := strconv.ParseFloat(string(bytes.TrimSpace(line[at:])), 64)
		out = append(out, line[:at+1]...)
		out = append(strconv.AppendFloat(out, value(string(name), before), 'g', -1, 64), '\n')
	}
	return out
}
