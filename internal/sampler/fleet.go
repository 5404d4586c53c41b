package sampler

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/stream"
)

// maxRoles is how many roles one sampler accepts: far over what its capacity allows, a bound for what a caller may cost.
const maxRoles = 8192

// fleet is all roles of this sampler: the backend of the stream server.
type fleet struct {
	scraper    scraper
	timeout    time.Duration
	maxPods    int
	leaderless time.Duration
	memory     *memory
	metrics    *metrics
	log        *zap.Logger
	publish    func(observe.RoleObservation)

	life context.Context // of the roles
	mu   sync.Mutex
	all  map[observe.RoleKey]*role
	stop *time.Timer // ends the roles when there is no leader for too long; nil with a leader
}

// newFleet makes a fleet whose roles live as long as life. Its publish is to be set before the first Apply.
func newFleet(life context.Context, s scraper, o *Options, m *metrics, log *zap.Logger) *fleet {
	return &fleet{
		scraper: s, timeout: o.ScrapeTimeout, maxPods: o.MaxPodsPerRole, leaderless: o.LeaderlessTimeout,
		memory: newMemory(memoryLimit, m), metrics: m, log: log, life: life, all: map[observe.RoleKey]*role{},
	}
}

// SessionStarted ends the time without a leader.
func (f *fleet) SessionStarted(leader string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keepRoles()
	f.log.Info("a decider leads", zap.String("leader", leader))
}

// SessionEnded begins it: the last assignment is scraped on for a while (ARCHITECTURE "Processes").
func (f *fleet) SessionEnded() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keepRoles()
	f.log.Warn("no decider leads any more: scraping the last assignment on", zap.Int("roles", len(f.all)), zap.Duration("for", f.leaderless))
	f.stop = time.AfterFunc(f.leaderless, f.giveUp)
}

func (f *fleet) keepRoles() {
	if f.stop != nil {
		f.stop.Stop()
		f.stop = nil
	}
}

func (f *fleet) giveUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stop == nil {
		return // a leader came at the last moment
	}
	f.stop = nil
	f.log.Warn("stopped scraping: no decider for too long", zap.Int("roles", len(f.all)))
	f.remove(func(observe.RoleKey) bool { return true })
}

// Apply takes an assignment over.
func (f *fleet) Apply(a stream.Assign) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a.Full {
		wanted := make(map[observe.RoleKey]bool, len(a.Upserts))
		for _, u := range a.Upserts {
			wanted[u.Key] = true
		}
		f.remove(func(k observe.RoleKey) bool { return !wanted[k] })
	}
	if len(a.Removals) > 0 {
		f.remove(func(k observe.RoleKey) bool { return slices.Contains(a.Removals, k) })
	}
	refused := 0
	for _, u := range a.Upserts {
		if !f.upsert(u) {
			refused++
		}
	}
	if refused > 0 {
		f.log.Error("refused roles: add samplers", zap.Int("refused", refused), zap.Int("limit", maxRoles))
	}
	f.metrics.roles.Set(float64(len(f.all)))
	f.log.Debug("took an assignment over", zap.Int64("revision", a.Revision), zap.Int("upserts", len(a.Upserts)), zap.Int("roles", len(f.all)))
}

func (f *fleet) upsert(a observe.Assignment) bool {
	now := time.Now()
	if r, found := f.all[a.Key]; found {
		r.assign(a, now)
		return true
	}
	if len(f.all) >= maxRoles || f.life.Err() != nil {
		return false
	}
	r := newRole(f, a, now)
	ctx, stop := context.WithCancel(f.life)
	r.stop = stop
	f.all[a.Key] = r
	go r.run(ctx)
	return true
}

// remove ends roles and waits for their scrapes to be broken off, so that a role that comes back finds nobody at work.
func (f *fleet) remove(which func(observe.RoleKey) bool) {
	var ending []*role
	for key, r := range f.all {
		if which(key) {
			r.stop()
			ending = append(ending, r)
			delete(f.all, key)
		}
	}
	for _, r := range ending {
		<-r.done
		r.forget()
	}
	f.metrics.roles.Set(float64(len(f.all)))
}

// close ends all roles.
func (f *fleet) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keepRoles()
	f.remove(func(observe.RoleKey) bool { return true })
}

func (f *fleet) roles() []*role {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]*role, 0, len(f.all))
	for _, r := range f.all {
		out = append(out, r)
	}
	return out
}

// Replay yields what was observed within span, role after role, oldest first, of roles that moved away too (D55).
func (f *fleet) Replay(span time.Duration) iter.Seq[observe.RoleObservation] {
	return f.memory.within(span, time.Now())
}

// Latest lists the latest observation of every role that has one.
func (f *fleet) Latest() []observe.RoleObservation {
	var out []observe.RoleObservation
	for _, r := range f.roles() {
		r.mu.Lock()
		o := r.latest
		r.mu.Unlock()
		if o.Sequence > 0 {
			o.Age = time.Since(o.End)
			out = append(out, o)
		}
	}
	return out
}

// check is the liveness of the sampler: every role had its pass in time.
func (f *fleet) check() error {
	now := time.Now()
	for _, r := range f.roles() {
		if late := r.overdue(now); late > 0 {
			return fmt.Errorf("the pass over %s is overdue by %s", r.key, late.Round(time.Millisecond))
		}
	}
	return nil
}
