package sampler

import (
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

const (
	// memoryLimit is how many observations are kept of all roles: some 64 MB.
	memoryLimit = 400_000
	// forgetStep is how much time is forgotten at once when that is not enough.
	forgetStep = time.Minute
	// sweepEvery is how often roles are looked for that are not observed any more.
	sweepEvery = time.Minute
)

// memory keeps the histories for a replay (D55): also of roles that moved away, because their new sampler knows nothing of
// what was before. It never waits for anybody.
type memory struct {
	metrics *metrics

	mu     sync.Mutex
	limit  int
	byRole map[observe.RoleKey]*history
	kept   int
	swept  time.Time
}

func newMemory(limit int, m *metrics) *memory {
	return &memory{limit: limit, metrics: m, byRole: map[observe.RoleKey]*history{}}
}

// add remembers o. Over the limit the oldest of all roles is forgotten.
func (m *memory) add(o observe.RoleObservation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o.End.Sub(m.swept) > sweepEvery {
		m.sweep(o.End)
	}
	h := m.byRole[o.Key]
	if h == nil {
		h = &history{}
		m.byRole[o.Key] = h
	}
	m.kept -= len(*h)
	h.add(o)
	m.kept += len(*h)
	for m.kept > m.limit {
		m.forgetOldest()
	}
	m.metrics.remembered.Set(float64(m.kept))
}

// sweep drops roles whose last observation is out of date.
func (m *memory) sweep(now time.Time) {
	m.swept = now
	for key, h := range m.byRole {
		if now.Sub((*h)[len(*h)-1].end) > replaySpan {
			m.kept -= len(*h)
			delete(m.byRole, key)
		}
	}
}

// forgetOldest drops what is oldest of all roles.
func (m *memory) forgetOldest() {
	var oldest time.Time
	for _, h := range m.byRole {
		if first := (*h)[0].end; oldest.IsZero() || first.Before(oldest) {
			oldest = first
		}
	}
	for key, h := range m.byRole {
		n := h.forget(oldest.Add(forgetStep))
		m.kept -= n
		m.metrics.forgotten.Add(float64(n))
		if len(*h) == 0 {
			delete(m.byRole, key)
		}
	}
}

// within yields what ended within span before now, role after role, those of each oldest first, each with its age when it is
// yielded. A replay takes its time: what is yielded of a role is what is remembered when its turn comes.
func (m *memory) within(span time.Duration, now time.Time) iter.Seq[observe.RoleObservation] {
	m.mu.Lock()
	keys := slices.Collect(maps.Keys(m.byRole))
	m.mu.Unlock()
	return func(yield func(observe.RoleObservation) bool) {
		for _, key := range keys {
			for _, p := range m.of(key) {
				if age := now.Sub(p.end); age >= 0 && age <= span && !yield(p.observation(key, time.Since(p.end))) {
					return
				}
			}
		}
	}
}

// of is a copy of what is remembered of a role.
func (m *memory) of(key observe.RoleKey) history {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := m.byRole[key]; h != nil {
		return slices.Clone(*h)
	}
	return nil
}
