package decide

import (
	"math"
)

// Budgets of a search in nodes (D27): one node is one count tried for one role.
const (
	planningBudget  = 20_000
	admissionBudget = 200_000
)

// widestBox is the most counts that a role can be searched over: all that its bounds may allow (spec "Bounds and ratios").
const widestBox = 1024

// search looks for the vector within a component's box and bands that is best by the order of score. It is exact and
// deterministic, and ends undecided when its budget does.
//
// It first learns, along a tree of links, how far from the wish the rest of the tree must at least be for every count of a
// role. Then it tries counts from the root on and follows only those that can still end within a limit of the distance: at
// first the tree's own least distance, which without cycles is the answer, then the next one that was passed by.
type search struct {
	links  []link
	tree   []branch // parents before children
	wish   []int32  // counts after the stages; like all slices here by the role's place in the component
	low    []int32  // the box
	top    []int32
	budget int

	counts []int32 // the vector being built
	limit  int64   // distance that is looked for
	passed int64   // the least distance over the limit that was met
	best   []int32
	score  score // of best; its distance is negative when there is none
}

func newSearch(c *component, upward bool, budget int) *search {
	n := len(c.roles)
	s := &search{links: c.links, budget: budget, score: score{distance: -1}}
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

// run returns the best vector; false when there is none or the budget ended before it was certain.
func (s *search) run() ([]int32, bool) {
	for i := range s.wish {
		switch {
		case s.low[i] > s.top[i]:
			return nil, false
		case int64(s.top[i])-int64(s.low[i]) >= widestBox:
			s.budget = 0
			return nil, false
		}
		s.counts[i] = max(s.low[i], min(s.top[i], s.wish[i]))
	}
	if s.legal(s.counts) {
		return s.counts, true // every role as near as its box allows: nothing can be nearer
	}
	s.learn()
	for s.limit = s.leastOf(0); s.limit < unreachable; s.limit = s.passed {
		s.passed = unreachable
		s.descend(0, s.leastOf(0), 0, 0)
		if s.budget <= 0 {
			return nil, false
		}
		if s.score.distance >= 0 {
			return s.best, true
		}
	}
	return nil, false
}

func (s *search) legal(counts []int32) bool {
	for _, l := range s.links {
		if !l.allows(counts[l.numerator], counts[l.denominator]) {
			return false
		}
	}
	return true
}

// descend fixes the role of tree[i] and those after it. bound is the least distance of the whole vector by the tree; ratio and
// shortage are those of the roles before it.
func (s *search) descend(i int, bound int64, ratio float64, shortage int64) {
	if i == len(s.tree) {
		s.keep(bound, ratio, shortage)
		return
	}
	b := &s.tree[i]
	without := bound - s.leastOf(i)
	low, top := s.window(b)
	values := nearestFirst(s.wish[b.place], low, top)
	for value, more := values.next(); more; value, more = values.next() {
		if s.budget--; s.budget <= 0 {
			return
		}
		within := without + b.cost[value-s.low[b.place]]
		if within > s.limit {
			s.passed = min(s.passed, within)
			if least := without + gap(value, s.wish[b.place]); least > s.limit && least >= s.passed {
				return // what follows is farther from the wish still, and no nearer than what was passed by
			}
			continue
		}
		s.counts[b.place] = value
		off := ratio + s.offTarget(b)
		short := shortage + max(0, int64(s.wish[b.place])-int64(value))
		if s.hopeless(off, short) {
			continue
		}
		s.descend(i+1, within, off, short)
	}
}

// hopeless says that no vector with so much behind it can be better than the best one.
func (s *search) hopeless(ratio float64, shortage int64) bool {
	if s.score.distance < 0 || ratio < s.score.ratio-tieSlack {
		return false
	}
	return ratio > s.score.ratio+tieSlack || s.score.ratio == 0 && ratio == 0 && shortage > s.score.shortage
}

// window is what the links with the roles before it leave of a role's box.
func (s *search) window(b *branch) (low, top int32) {
	low, top = s.low[b.place], s.top[b.place]
	for _, l := range b.back {
		low, top = l.beside(b.place, s.counts[l.other(b.place)], low, top)
	}
	return low, top
}

// offTarget is the distance of the links between a role and those before it from their ratio targets.
func (s *search) offTarget(b *branch) float64 {
	sum := 0.0
	for _, l := range b.back {
		if l.target.there {
			sum += math.Abs(float64(s.counts[l.numerator])/float64(s.counts[l.denominator]) - l.target.approximate)
		}
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
	switch left, right := o.down >= o.low && o.down <= o.top, o.up >= o.low && o.up <= o.top; {
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
