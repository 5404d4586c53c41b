package decide

import (
	"math"
	"math/big"
)

// Search budgets in nodes (D27): one node is one count tried for one role.
const (
	planningBudget = 20_000
)

// tieSlack is how near two sums of ratio distances may be before they are compared as exact fractions.
const tieSlack = 1e-9

// search is a branch-and-bound over the integer box of a component: it looks for the vector within all bands that is best by
// the order of score. It is exact, deterministic, and ends undecided when its budget does.
type search struct {
	links    []link
	wish     []int32 // counts after the stages
	low, top []int32 // the box
	budget   int

	boxes  []int32 // low and top of every depth
	counts []int32 // the vector being built
	best   []int32
	score  score // of best
}

// score orders vectors (D27): nearest to the wish, nearest to the ratio targets, least shortage, least total. What is still equal is
// decided by the vectors themselves, the lexicographically smallest first.
type score struct {
	distance int64
	ratio    float64
	shortage int64
	total    int64
}

func newSearch(c *component, upward bool, budget int) *search {
	n := len(c.roles)
	s := &search{links: c.links, budget: budget}
	space := make([]int32, 5*n)
	s.wish, s.low, s.top, s.counts, s.best = space[:n], space[n:2*n], space[2*n:3*n], space[3*n:4*n], space[4*n:]
	for i, r := range c.roles {
		s.wish[i] = r.count
		s.low[i], s.top[i] = r.floor, r.Replicas
		if upward {
			s.low[i], s.top[i] = r.Replicas, r.ceil
		}
	}
	return s
}

// run returns the best vector. The current one is in the box and within the bands, so there always is one.
func (s *search) run() ([]int32, bool) {
	for i := range s.wish {
		s.counts[i] = max(s.low[i], min(s.top[i], s.wish[i]))
	}
	if s.legal(s.counts) {
		return s.counts, true // every role as near as its box allows: nothing can be nearer
	}
	s.score.distance = math.MaxInt64
	low, top := s.low, s.top
	s.descend(0, 0, 0, low, top)
	return s.best, s.budget > 0 && s.score.distance < math.MaxInt64
}

// box is the memory for what is left of the box below depth i.
func (s *search) box(i int) (low, top []int32) {
	n := len(s.wish)
	if s.boxes == nil {
		s.boxes = make([]int32, 2*n*n)
	}
	at := s.boxes[2*n*i:]
	return at[:n], at[n : 2*n]
}

func (s *search) legal(counts []int32) bool {
	for _, l := range s.links {
		if !l.allows(counts[l.numerator], counts[l.denominator]) {
			return false
		}
	}
	return true
}

// descend fixes role i and those after it. distance is that of the roles before it, ratio that of the links among them; low
// and top are what the bands leave of the box.
func (s *search) descend(i int, distance int64, ratio float64, low, top []int32) {
	if i == len(s.wish) {
		s.keep(distance, ratio)
		return
	}
	rest := s.distanceOfRest(i+1, low, top)
	nextLow, nextTop := s.box(i)
	values := nearestFirst(s.wish[i], low[i], top[i])
	for value, more := values.next(); more; value, more = values.next() {
		at := distance + gap(value, s.wish[i])
		if at+rest > s.score.distance {
			return // values only get farther
		}
		if s.budget--; s.budget <= 0 {
			return
		}
		s.counts[i] = value
		added, legal := s.linksTo(i)
		if !legal || at+rest == s.score.distance && ratio+added > s.score.ratio+tieSlack {
			continue
		}
		copy(nextLow, low)
		copy(nextTop, top)
		nextLow[i], nextTop[i] = value, value
		if s.tighten(nextLow, nextTop) {
			s.descend(i+1, at, ratio+added, nextLow, nextTop)
		}
	}
}

// linksTo is the ratio distance of the links between role i and the roles before it; false when a band is broken.
func (s *search) linksTo(i int) (float64, bool) {
	sum := 0.0
	for _, l := range s.links {
		if max(l.numerator, l.denominator) != i {
			continue
		}
		n, d := s.counts[l.numerator], s.counts[l.denominator]
		if !l.allows(n, d) {
			return 0, false
		}
		if l.target.there {
			sum += math.Abs(float64(n)/float64(d) - l.target.approximate)
		}
	}
	return sum, true
}

// distanceOfRest is the least distance that the roles from i on must add.
func (s *search) distanceOfRest(i int, low, top []int32) int64 {
	sum := int64(0)
	for ; i < len(s.wish); i++ {
		sum += max(0, int64(low[i])-int64(s.wish[i]), int64(s.wish[i])-int64(top[i]))
	}
	return sum
}

// tighten drops counts that no band can hold beside the others'; false when a role has none left. It errs on the wide side:
// what is legal is decided by the bands themselves.
func (s *search) tighten(low, top []int32) bool {
	for changed := true; changed; {
		changed = false
		for _, l := range s.links {
			n, d := l.numerator, l.denominator
			if l.min.there {
				changed = raise(&low[n], float64(low[d])*l.min.approximate) || changed
				changed = lower(&top[d], float64(top[n])/l.min.approximate) || changed
			}
			if l.max.there {
				changed = lower(&top[n], float64(top[d])*l.max.approximate) || changed
				changed = raise(&low[d], float64(low[n])/l.max.approximate) || changed
			}
			if low[n] > top[n] || low[d] > top[d] {
				return false
			}
		}
	}
	return true
}

// widening of the bounds that tighten computes, over the slack of the bands.
const widening = 2 * ratioSlack

func raise(low *int32, bound float64) bool {
	if b := math.Ceil(bound*(1-widening) - ceilingSlack); b > float64(*low) {
		*low = int32(min(b, math.MaxInt32))
		return true
	}
	return false
}

func lower(top *int32, bound float64) bool {
	if b := math.Floor(bound*(1+widening) + ceilingSlack); b < float64(*top) {
		*top = int32(max(b, 0))
		return true
	}
	return false
}

// keep takes the finished vector when it is better than the best so far.
func (s *search) keep(distance int64, ratio float64) {
	found := score{distance: distance, ratio: ratio}
	for i, count := range s.counts {
		found.shortage += max(0, int64(s.wish[i])-int64(count))
		found.total += int64(count)
	}
	if s.better(found) {
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

// outward walks the integers of [low, top] by their distance from wish, the smaller of two equals first.
type outward struct {
	wish, low, top int64
	down, up       int64 // the next on either side
}

func nearestFirst(wish, low, top int32) outward {
	at := int64(max(low, min(top, wish)))
	return outward{wish: int64(wish), low: int64(low), top: int64(top), down: at, up: at + 1}
}

func (o *outward) next() (value int32, more bool) {
	switch left, right := o.down >= o.low, o.up <= o.top; {
	case left && (!right || o.wish-o.down <= o.up-o.wish):
		o.down--
		return int32(o.down + 1), true
	case right:
		o.up++
		return int32(o.up - 1), true
	}
	return 0, false
}

func gap(a, b int32) int64 {
	if a > b {
		return int64(a) - int64(b)
	}
	return int64(b) - int64(a)
}
