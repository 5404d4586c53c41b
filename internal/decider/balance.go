package decider

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// balance is one placement in the making.
type balance struct {
	roles  []*balancedRole  // the largest first: small ones fill the gaps
	shards []*balancedShard // by name
}

type balancedRole struct {
	key   observe.RoleKey
	load  float64
	owner *balancedShard
}

type balancedShard struct {
	shard
	load, limit float64
}

// fits says whether a role of that load may be given to s.
func (s *balancedShard) fits(load float64) bool { return s.lost.IsZero() && s.load+load <= s.limit }

// excess is how much of the load is over the limit.
func (s *balancedShard) excess() float64 { return s.load - s.limit }

func newBalance(roles []observe.Assignment, shards []shard) *balance {
	b := &balance{roles: make([]*balancedRole, len(roles)), shards: make([]*balancedShard, len(shards))}
	list := make([]balancedRole, len(roles))
	for i, role := range roles {
		list[i] = balancedRole{key: role.Key, load: load(role)}
		b.roles[i] = &list[i]
	}
	slices.SortFunc(b.roles, func(x, y *balancedRole) int {
		return cmp.Or(cmp.Compare(y.load, x.load), compareKeys(x.key, y.key))
	})
	total, weights := 0.0, 0.0
	for _, r := range b.roles {
		total += r.load
	}
	for i, s := range shards {
		b.shards[i] = &balancedShard{shard: s}
	}
	slices.SortFunc(b.shards, func(x, y *balancedShard) int { return strings.Compare(x.name, y.name) })
	for _, s := range b.shards {
		weights += weight(s.shard)
	}
	for _, s := range b.shards {
		s.limit = slack * total * weight(s.shard) / weights
	}
	return b
}

// give makes s the owner of r.
func give(r *balancedRole, s *balancedShard) {
	if r.owner != nil {
		r.owner.load -= r.load
	}
	r.owner = s
	s.load += r.load
}

// keep leaves every role with the shard that had it.
func (b *balance) keep(owners map[observe.RoleKey]string) {
	byName := make(map[string]*balancedShard, len(b.shards))
	for _, s := range b.shards {
		byName[s.name] = s
	}
	for _, r := range b.roles {
		if s := byName[owners[r.key]]; s != nil {
			give(r, s)
		}
	}
}

// welcome gives the new shards the roles that they have the highest score for: of N shards the last takes about 1/N.
func (b *balance) welcome(names map[string]bool) {
	if len(names) == 0 {
		return
	}
	for _, r := range b.roles {
		if r.owner == nil || !r.owner.lost.IsZero() {
			continue
		}
		has := score(r.key, r.owner.shard)
		if s := b.best(r, func(s *balancedShard) bool { return names[s.name] && s.fits(r.load) }); s != nil && score(r.key, s.shard) > has {
			give(r, s)
		}
	}
}

// house gives the roles without a shard to the best that has room; a role that fits nowhere goes where it exceeds least.
func (b *balance) house() {
	for _, r := range b.roles {
		if r.owner != nil {
			continue
		}
		s := b.best(r, func(s *balancedShard) bool { return s.fits(r.load) })
		if s == nil {
			s = b.roomiest(r)
		}
		if s != nil {
			give(r, s)
		}
	}
}

// relieve moves roles from shards over their limit to others that have room, until no move helps: each takes away from what
// is in excess.
func (b *balance) relieve() {
	for moved := true; moved; {
		moved = false
		for _, s := range b.shards {
			if s.lost.IsZero() && s.excess() > 0 && b.shed(s) {
				moved = true
			}
		}
	}
}

// shed moves one role away: the smallest that ends the excess, else the largest, of those that fit elsewhere.
func (b *balance) shed(s *balancedShard) bool {
	var chosen *balancedRole
	var next *balancedShard
	for _, r := range b.roles { // the largest first
		if r.owner != s || chosen != nil && r.load < s.excess() {
			continue
		}
		if other := b.best(r, func(o *balancedShard) bool { return o != s && o.fits(r.load) }); other != nil {
			chosen, next = r, other
		}
	}
	if chosen == nil {
		return false
	}
	give(chosen, next)
	return true
}

// best is the shard with the highest score of those that may have the role; of equal ones, which only a broken hash gives,
// the first by name. nil when none may.
func (b *balance) best(r *balancedRole, may func(*balancedShard) bool) (found *balancedShard) {
	highest := 0.0
	for _, s := range b.shards {
		if !may(s) {
			continue
		}
		if scored := score(r.key, s.shard); found == nil || scored > highest {
			found, highest = s, scored
		}
	}
	return found
}

// roomiest is the live shard with the most room left, of equal ones that with the highest score; nil when none is live.
func (b *balance) roomiest(r *balancedRole) *balancedShard {
	least := math.Inf(1)
	for _, s := range b.shards {
		if s.lost.IsZero() {
			least = min(least, s.excess())
		}
	}
	return b.best(r, func(s *balancedShard) bool { return s.lost.IsZero() && s.excess() <= least })
}
