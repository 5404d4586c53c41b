package decide

import (
	"math/big"
)

// tieSlack is how near two sums of ratio distances may be before they are compared as exact fractions.
const tieSlack = 1e-9

// score orders vectors (D27): nearest to the wish, nearest to the ratio targets, least shortage, least total. What is still equal is
// decided by the vectors themselves, the lexicographically smallest first.
type score struct {
	distance int64
	ratio    float64
	shortage int64
	total    int64
}

// keep takes the finished vector when it is better than the best so far.
func (s *search) keep(distance int64, ratio float64, shortage int64) {
	found := score{distance: distance, ratio: ratio, shortage: shortage}
	for _, count := range s.counts {
		found.total += int64(count)
	}
	if s.score.distance < 0 || s.better(found) {
		s.score = found
		copy(s.best, s.counts)
	}
}

func (s *search) better(found score) bool {
	if found.distance != s.score.distance {
		return found.distance < s.score.distance
	}
	if order := s.compareRatios(found); order != 0 {
		return order < 0
	}
	if found.shortage != s.score.shortage {
		return found.shortage < s.score.shortage
	}
	if found.total != s.score.total {
		return found.total < s.score.total
	}
	for i, count := range s.counts {
		if count != s.best[i] {
			return count < s.best[i]
		}
	}
	return false
}

func (s *search) compareRatios(found score) int {
	switch {
	case found.ratio < s.score.ratio-tieSlack:
		return -1
	case found.ratio > s.score.ratio+tieSlack:
		return 1
	}
	return s.ratioDistance(s.counts).Cmp(s.ratioDistance(s.best))
}

// ratioDistance is the exact sum of |ratio - ratio target|.
func (s *search) ratioDistance(counts []int32) *big.Rat {
	sum := new(big.Rat)
	for _, l := range s.links {
		if !l.target.there {
			continue
		}
		target := new(big.Rat).SetFrac(new(big.Int).SetUint64(l.target.nanos), big.NewInt(nanoParts))
		off := new(big.Rat).SetFrac64(int64(counts[l.numerator]), int64(counts[l.denominator]))
		sum.Add(sum, off.Abs(off.Sub(off, target)))
	}
	return sum
}
