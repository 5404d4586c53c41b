package decide

import "slices"

// component is a set of roles that ratios connect: it is planned as one (spec "Bounds and ratios").
type component struct {
	roles []*role // in spec order
	links []link  // the ratios among them
}

// link is a ratio between two roles of a component, by their places in it.
type link struct {
	*band
	numerator, denominator int
}

// components splits the roles along the ratios. A ratio with a role that the target does not have connects nothing.
func (p *pass) components() []component {
	leader := make([]int, len(p.roles)) // the place of the first role that each is connected with
	for i := range leader {
		leader[i] = i
	}
	for i := range p.bands {
		n, d := p.place(p.bands[i].numerator), p.place(p.bands[i].denominator)
		if n < 0 || d < 0 || n == d {
			continue
		}
		first, second := min(leader[n], leader[d]), max(leader[n], leader[d])
		for r := range leader {
			if leader[r] == second {
				leader[r] = first
			}
		}
	}
	found := make([]component, 0, len(p.roles))
	for first := range leader {
		if leader[first] != first {
			continue
		}
		c := component{}
		for r := first; r < len(leader); r++ {
			if leader[r] == first {
				c.roles = append(c.roles, p.roles[r])
			}
		}
		c.connect(p.bands)
		found = append(found, c)
	}
	return found
}

// place of a role among those of the target; -1 when it has none of that name.
func (p *pass) place(name string) int {
	for i, r := range p.roles {
		if r.Name == name {
			return i
		}
	}
	return -1
}

func (c *component) connect(bands []band) {
	place := func(name string) int {
		return slices.IndexFunc(c.roles, func(r *role) bool { return r.Name == name })
	}
	for i := range bands {
		if n, d := place(bands[i].numerator), place(bands[i].denominator); n >= 0 && d >= 0 && n != d {
			c.links = append(c.links, link{&bands[i], n, d})
		}
	}
}

// project brings every component to the legal vector nearest to its recommendations (D27). A component with a role that wants
// to grow goes up as a whole, and nobody in it shrinks; otherwise nobody grows.
func (p *pass) project() {
	for _, c := range p.components() {
		counts, decided := c.search(planningBudget)
		for i, r := range c.roles {
			switch {
			case decided:
				r.moveTo(StageProject, counts[i], RuleRatio)
			default:
				r.moveTo(StageProject, r.Replicas, RuleUndecided)
				p.undecided = append(p.undecided, r.Name)
			}
		}
	}
}

func (c *component) upward() bool {
	for _, r := range c.roles {
		if r.count > r.Replicas {
			return true
		}
	}
	return false
}

// search is the legal vector of the component nearest to its counts; false when the budget ended before it was certain.
func (c *component) search(budget int) ([]int32, bool) {
	if len(c.roles) == 1 {
		return []int32{c.roles[0].count}, true // the stages have kept it inside its box
	}
	s := newSearch(c, c.upward(), budget)
	return s.run()
}
