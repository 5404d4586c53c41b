package scrape

import (
	"bytes"
	"hash/maphash"
	"strconv"
)

// labelReader walks the labels of a series as exposed: name{label="value",...}. Values stay escaped: they are compared and
// hashed, never shown.
type labelReader struct{ rest []byte }

func labelsOf(series []byte) labelReader {
	_, rest, _ := bytes.Cut(series, []byte("{"))
	return labelReader{rest}
}

// next is the next label; false at the end or where the text makes no sense.
func (r *labelReader) next() (name, value []byte, ok bool) {
	name, rest, found := bytes.Cut(r.rest, []byte("="))
	if !found {
		return nil, nil, false
	}
	rest = bytes.TrimLeft(rest, " \t")
	end := closingQuote(rest)
	if end < 0 {
		return nil, nil, false
	}
	r.rest = rest[end+1:]
	return bytes.Trim(name, " \t,\""), rest[1:end], true
}

// closingQuote is the index of the quote that ends the quoted text at the start of b; -1 without one.
func closingQuote(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return -1
	}
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// Hashes identify series within this process.
var seed = maphash.MakeSeed()

// hashLabel is made to be added up, so that the order of labels does not matter.
func hashLabel(name, value []byte) uint64 {
	return mix(maphash.Bytes(seed, name)*31 + maphash.Bytes(seed, value))
}

// mix spreads bits, so that sums of hashes stay hashes.
func mix(h uint64) uint64 {
	h ^= h >> 32
	h *= 0x9e3779b97f4a7c15
	return h ^ h>>29
}

// Widths of the ranks in a member: one number whose order is that of (pipeline, tensor, expert, other).
const (
	rankBits = 12
	maxRank  = 1<<rankBits - 1
)

// rankShift is where a label that numbers copies of one engine stands in a member (D6).
func rankShift(name []byte) (uint, bool) {
	switch string(name) {
	case "pp_rank":
		return 4 * rankBits, true
	case "tp_rank":
		return 3 * rankBits, true
	case "moe_ep_rank":
		return 2 * rankBits, true
	case "ep_rank":
		return rankBits, true
	case "rank":
		return 0, true
	}
	return 0, false
}

// rankOf reads a rank; what is no number counts as the last one.
func rankOf(value []byte) uint64 {
	n, err := strconv.ParseUint(string(value), 10, 64)
	if err != nil {
		return maxRank
	}
	return min(n, maxRank)
}
