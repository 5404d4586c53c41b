package scrape

import (
	"bytes"
	"hash/maphash"
	"strconv"
	"sync"
)

// maxKnown is how many series are remembered: what some 1,500 roles of Pods expose that differ in nothing but their values.
// With more, all are forgotten and learnt anew, which costs time and nothing else.
const maxKnown = 1 << 17

// memory holds, for one format, the series whose text the parser has accepted and what they read as, without a value. Pods of
// one role expose the same text, so it is kept for all of them together, by a hash seeded at random: that two of n texts meet
// has a probability of n²/2^65.
type memory struct {
	mu     sync.RWMutex
	series map[uint64]series
}

func keyOf(text []byte) uint64 { return maphash.Bytes(seed, text) }

// learn remembers series that were parsed.
func (m *memory) learn(keys []uint64, learnt []series) {
	if len(keys) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.series == nil || len(m.series)+len(keys) > maxKnown {
		m.series = map[uint64]series{}
	}
	for i, key := range keys[:min(len(keys), maxKnown)] {
		m.series[key] = learnt[i]
	}
}

// split parts a line of the form that engines print: series, one space and a plain decimal number. Anything else, with a
// timestamp, an exemplar, NaN or an error, is for the parser to judge.
func split(text []byte) (size int, number float64, plain bool) {
	size = bytes.LastIndexByte(text, ' ')
	if size <= 0 || size+1 == len(text) {
		return 0, 0, false
	}
	digits := text[size+1:]
	for _, c := range digits {
		if (c < '0' || c > '9') && c != '.' && c != 'e' && c != '+' && c != '-' {
			return 0, 0, false
		}
	}
	number, err := strconv.ParseFloat(string(digits), 64)
	return size, number, err == nil
}
