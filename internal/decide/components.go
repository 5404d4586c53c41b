package decide

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
	leader := make(map[*role]*role, len(p.roles))
	for _, r := range p.roles {
		leader[r] = r
	}
	for i := range p.bands {
		n, d := p.role(p.bands[i].numerator), p.role(p.bands[i].denominator)
		if n == nil || d == nil || n == d {
			continue
		}
		from, to := leader[n], leader[d]
		for r, l := range leader {
			if l == from {
				leader[r] = to
			}
		}
	}
	var found []component
	place := make(map[*role]int, len(p.roles)) // of a leader's component
	for _, r := range p.roles {
		at, known := place[leader[r]]
		if !known {
			at = len(found)
			place[leader[r]] = at
			found = append(found, component{})
		}
		found[at].roles = append(found[at].roles, r)
	}
	for i := range found {
		found[i].connect(p.bands)
	}
	return found
}

func (c *component) connect(bands []band) {
	places := make(map[string]int, len(c.roles))
	for i, r := range c.roles {
		places[r.Name] = i
	}
	for i := range bands {
		n, known := places[bands[i].numerator]
		d, both := places[bands[i].denominator]
		if known && both {
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
	s := newSearch(c, c.upward(), budget)
	return s.run()
}
