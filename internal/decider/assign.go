package decider

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/stream"
)

const (
	// grace is how long the roles of a sampler that vanished stay with its name: what restarts finds its roles again.
	grace = 10 * time.Second
	// slack is how far over its share of the load a sampler may go.
	slack = 1.25
)

// shard is a sampler: its name and how many scrapes a second it can do.
type shard struct {
	name     string
	capacity float64
	// lost is when its session ended without a word; zero while it is live. A lost shard keeps what it has and gets nothing.
	lost time.Time
}

// placement says who observes what: the owner of every role, and the shards that were to choose from, by name.
type placement struct {
	owners map[observe.RoleKey]string
	shards map[string]shard
}

// waitedFor lists live and the shards of before that vanished less than a grace ago. A shard that drained is not waited for.
func waitedFor(before placement, live []shard, departed map[string]stream.Departure, now time.Time) []shard {
	shards := slices.Clone(live)
	for name, s := range before.shards {
		d, known := departed[name]
		back := slices.ContainsFunc(live, func(s shard) bool { return s.name == name })
		if back || !known || d.Final || now.Sub(d.At) >= grace {
			continue
		}
		s.lost = d.At
		shards = append(shards, s)
	}
	return shards
}

// place gives every role to one shard, by weighted rendezvous hashing with a bounded load. A role stays where it was, but
// for three reasons: its shard is gone; a shard that is new has a higher score for it; its shard has more than 1.25 times its
// share of the scrapes and the role fits elsewhere. The result follows from the arguments alone. Without a live shard only
// what is kept for a lost one has an owner.
func place(before placement, roles []observe.Assignment, shards []shard) placement {
	b := newBalance(roles, shards)
	b.keep(before.owners)
	b.welcome(newcomers(before, shards))
	b.house()
	b.relieve()
	next := placement{owners: make(map[observe.RoleKey]string, len(roles)), shards: make(map[string]shard, len(shards))}
	for _, s := range b.shards {
		next.shards[s.name] = s.shard
	}
	for _, r := range b.roles {
		if r.owner != nil {
			next.owners[r.key] = r.owner.name
		}
	}
	return next
}

// newcomers are the names of the shards that had no say in before.
func newcomers(before placement, shards []shard) map[string]bool {
	names := make(map[string]bool)
	for _, s := range shards {
		if _, known := before.shards[s.name]; !known {
			names[s.name] = true
		}
	}
	if len(names) > 0 { // a new leader knows the shards by what they observe
		for owner := range maps.Values(before.owners) {
			delete(names, owner)
		}
	}
	return names
}

// byShard lists what each shard owns; every shard is in the result, with nothing to do too.
func (p placement) byShard(roles []observe.Assignment) map[string][]observe.Assignment {
	counts := make(map[string]int, len(p.shards))
	for _, owner := range p.owners {
		counts[owner]++
	}
	owned := make(map[string][]observe.Assignment, len(p.shards))
	for name := range p.shards {
		owned[name] = make([]observe.Assignment, 0, counts[name]) // kept as long as it holds
	}
	for _, role := range roles {
		if owner, found := p.owners[role.Key]; found {
			owned[owner] = append(owned[owner], role)
		}
	}
	return owned
}

// load is what a role costs, in millionths of a scrape a second: whole numbers, whose sums do not depend on their order. A
// role without Pods has its passes too, and must not be free.
func load(role observe.Assignment) float64 {
	return math.Round(1e6 * float64(max(1, len(role.Pods))) / max(role.Interval, time.Second).Seconds())
}

// score is larger for a shard that should have the role; in proportion to capacity shards win roles.
func score(key observe.RoleKey, s shard) float64 {
	digest := xxhash.New()
	for _, part := range []string{s.name, key.Namespace, key.Deployment, key.UID, key.Role} {
		_, _ = digest.WriteString(part) // never fails
		_, _ = digest.Write([]byte{0})
	}
	uniform := (float64(digest.Sum64()>>11) + 0.5) / (1 << 53) // within (0, 1)
	return -weight(s) / math.Log(uniform)
}

// weight of a shard; one that announces nonsense counts as the smallest.
func weight(s shard) float64 {
	if s.capacity >= 1 && !math.IsInf(s.capacity, 1) {
		return s.capacity
	}
	return 1
}

func compareKeys(a, b observe.RoleKey) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Deployment, b.Deployment),
		strings.Compare(a.UID, b.UID), strings.Compare(a.Role, b.Role))
}
