package decide

import "math"

// unreachable is the distance of what no band allows.
const unreachable = math.MaxInt64 / 4

// branch is a role in the tree of links that a search learns its bounds from.
type branch struct {
	place  int     // of the role in the component
	parent int     // place of its parent; -1 at the root
	back   []*link // to the roles before it in the tree: its parent, and more where links close a cycle
	// cost is, by count from the role's low on, the least distance of the role and all that hangs on it.
	cost []int64
	// least is, by count of the parent from its low on, the least cost that is allowed beside it. At the root it is one number.
	least []int64
}

// learn builds the tree and its costs, from the leaves to the root.
func (s *search) learn() {
	s.grow()
	for i := len(s.tree) - 1; i >= 0; i-- {
		b := &s.tree[i]
		low, top := s.low[b.place], s.top[b.place]
		b.cost = make([]int64, int(top)-int(low)+1)
		for v := range b.cost {
			b.cost[v] = gap(low+int32(v), s.wish[b.place])
		}
		for j := i + 1; j < len(s.tree); j++ {
			if child := &s.tree[j]; child.parent == b.place {
				for v := range b.cost {
					b.cost[v] = min(unreachable, b.cost[v]+child.least[v])
				}
			}
		}
		b.least = s.leastBeside(b)
	}
}

// grow walks the links breadth first from the first role on.
func (s *search) grow() {
	s.tree = make([]branch, 0, len(s.wish))
	s.tree = append(s.tree, branch{place: 0, parent: -1})
	known := make([]bool, len(s.wish))
	known[0] = true
	for at := 0; at < len(s.tree); at++ {
		for i := range s.links {
			if other := s.links[i].other(s.tree[at].place); other >= 0 && !known[other] {
				known[other] = true
				s.tree = append(s.tree, branch{place: other, parent: s.tree[at].place})
			}
		}
	}
	for i := range s.links {
		for at := len(s.tree) - 1; at >= 0; at-- {
			if b := &s.tree[at]; s.links[i].other(b.place) >= 0 { // the later end
				b.back = append(b.back, &s.links[i])
				break
			}
		}
	}
}

// leastBeside is the least cost of a branch beside each count of its parent. The windows that the links leave move one way with
// the parent's count, so the least of each is kept in a queue of candidates.
func (s *search) leastBeside(b *branch) []int64 {
	if b.parent < 0 {
		least := int64(unreachable)
		for _, c := range b.cost {
			least = min(least, c)
		}
		return []int64{least}
	}
	least := make([]int64, int(s.top[b.parent])-int(s.low[b.parent])+1)
	queue := make([]int32, 0, len(b.cost)) // counts with rising cost
	first, next := 0, s.low[b.place]
	for v := range least {
		low, top := s.low[b.place], s.top[b.place]
		for _, l := range b.back {
			if l.other(b.place) == b.parent {
				low, top = l.beside(b.place, s.low[b.parent]+int32(v), low, top)
			}
		}
		for ; next <= top; next++ {
			for len(queue) > first && b.cost[queue[len(queue)-1]-s.low[b.place]] >= b.cost[next-s.low[b.place]] {
				queue = queue[:len(queue)-1]
			}
			queue = append(queue, next)
		}
		for first < len(queue) && queue[first] < low {
			first++
		}
		least[v] = unreachable
		if low <= top && first < len(queue) && queue[first] <= top {
			least[v] = b.cost[queue[first]-s.low[b.place]]
		}
	}
	return least
}

// leastOf is the least cost of the branch beside its parent's present count.
func (s *search) leastOf(i int) int64 {
	b := &s.tree[i]
	if b.parent < 0 {
		return b.least[0]
	}
	return b.least[s.counts[b.parent]-s.low[b.parent]]
}

// other end of the link; -1 when the role is at neither.
func (l *link) other(place int) int {
	switch place {
	case l.numerator:
		return l.denominator
	case l.denominator:
		return l.numerator
	}
	return -1
}

// beside narrows [low, top] to the counts of a role that the band allows beside the other's count. Both ends move one way with
// that count, also when nothing is left between them.
func (l *link) beside(place int, other int32, low, top int32) (int32, int32) {
	if place == l.numerator {
		return l.numerators(other, low, top)
	}
	return l.denominators(other, low, top)
}

func (l *link) numerators(denominator, low, top int32) (int32, int32) {
	from, to := low, top
	if l.min.there {
		for low = max(low, nearby(float64(denominator)*l.min.approximate*(1-widening))); low <= to && !l.atLeast(low, denominator); {
			low++
		}
	}
	if l.max.there {
		for top = min(top, nearby(float64(denominator)*l.max.approximate*(1+widening)+1)); top >= from && !l.atMost(top, denominator); {
			top--
		}
	}
	return low, top
}

func (l *link) denominators(numerator, low, top int32) (int32, int32) {
	from, to := low, top
	if l.max.there {
		for low = max(low, nearby(float64(numerator)/l.max.approximate*(1-widening))); low <= to && !l.atMost(numerator, low); {
			low++
		}
	}
	if l.min.there {
		for top = min(top, nearby(float64(numerator)/l.min.approximate*(1+widening)+1)); top >= from && !l.atLeast(numerator, top); {
			top--
		}
	}
	return low, top
}

// widening of computed bounds, over the slack of the bands: where a band really begins is up to the band.
const widening = 2 * ratioSlack

func nearby(x float64) int32 { return int32(min(math.MaxInt32, math.Floor(x))) }
