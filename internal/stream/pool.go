package stream

import (
	"cmp"
	"context"
	"crypto/tls"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// PoolOptions say who leads and who is told.
type PoolOptions struct {
	// TLS of the connections; nil: none, and every member must be on a loopback address.
	TLS *tls.Config
	// Leader is the holder identity of the Lease, Epoch its leadership. A pool serves one leadership: the next needs a new one.
	Leader string
	Epoch  Epoch
	// ReplaySpan is how far back a new session replays (D55); 0: no replay.
	ReplaySpan time.Duration
	// OnObservation takes an observation of a shard over, with its arrival on the monotonic clock: its age now is
	// o.Age + time.Since(at) (D12). A session hands over the latest of each role, then its replay, and what is new as it comes,
	// also in between. A shard that drains goes on until its roles have moved. It is called from the session's goroutine, of
	// several sessions at once, and must never block: while it does, the shard's observations queue up at the sampler and
	// replace each other.
	OnObservation func(shard string, o observe.RoleObservation, at time.Time)
	// OnReplay takes the history of a role over, as OnObservation does. What ReplaySpan is not 0 for needs it.
	OnReplay func(shard string, r Replay, at time.Time)
	// OnChange says that Live has changed. Called from session goroutines; must never block and may call the pool.
	OnChange   func()
	Log        *zap.Logger
	Registerer prometheus.Registerer
}

// Member is a sampler to keep a session with.
type Member struct {
	// Name identifies the member, for example its Pod; Address is host:port. A member whose address changed is another one.
	Name, Address string
}

// Shard is a live sampler: its session is up and it is not draining.
type Shard struct {
	Name, Node, Version string
	// Capacity in scrapes per second.
	Capacity float64
	// Replayed is true when all of the replay that was asked for has been handed to OnReplay.
	Replayed bool
}

// Departure is how the last session of a shard that is not live ended.
type Departure struct {
	// Final: the sampler said that it stops, or is no member any more. Its roles need not wait for it.
	Final bool
	// At is when the session ended; when the connection had been silent for longer than a live one can be, since when.
	At time.Time
}

// Pool keeps one session to every member and tells each what it owns.
type Pool struct {
	options PoolOptions
	metrics poolMetrics
	dial    func(context.Context, string) (net.Conn, error) // nil: the network's

	changed chan struct{} // has a token when members changed

	mu       sync.Mutex
	members  map[Member]struct{}
	links    map[*link]struct{}   // that said Ready
	live     map[string]*link     // by shard name; draining ones are out
	wanted   map[string]owned     // by shard name
	departed map[string]Departure // by shard name: those of the last minute that are not live
}

// NewPool makes a pool without members, with its metrics registered.
func NewPool(options PoolOptions) *Pool {
	return &Pool{
		options:  options,
		metrics:  newPoolMetrics(options.Registerer),
		changed:  make(chan struct{}, 1),
		links:    map[*link]struct{}{},
		live:     map[string]*link{},
		departed: map[string]Departure{},
	}
}

// Run keeps the sessions until ctx ends; it always returns nil, after the last goroutine has ended.
func (p *Pool) Run(ctx context.Context) error {
	running := map[Member]context.CancelFunc{}
	var group sync.WaitGroup
	defer group.Wait()
	for {
		p.reconcile(ctx, running, &group)
		select {
		case <-ctx.Done():
			return nil
		case <-p.changed:
		}
	}
}

// reconcile starts what is to run and is not, and ends what runs and is not to. New members start spread over a moment.
func (p *Pool) reconcile(ctx context.Context, running map[Member]context.CancelFunc, group *sync.WaitGroup) {
	p.mu.Lock()
	members := p.members
	p.mu.Unlock()
	for m, stop := range running {
		if _, wanted := members[m]; !wanted {
			stop()
			delete(running, m)
		}
	}
	spread := firstSpread(len(members) - len(running))
	for m := range members {
		if _, found := running[m]; found {
			continue
		}
		memberContext, stop := context.WithCancel(ctx)
		running[m] = stop
		group.Go(func() { p.keep(memberContext, m, spread) })
	}
	p.metrics.members.Set(float64(len(running)))
}

// SetMembers replaces the members. Sessions of members that are gone are closed. It returns at once.
func (p *Pool) SetMembers(members []Member) {
	set := make(map[Member]struct{}, len(members))
	for _, m := range members {
		set[m] = struct{}{}
	}
	p.mu.Lock()
	p.members = set
	p.mu.Unlock()
	signal(p.changed)
}

// Live lists the live shards by name.
func (p *Pool) Live() []Shard {
	p.mu.Lock()
	defer p.mu.Unlock()
	shards := make([]Shard, 0, len(p.live))
	for _, l := range p.live {
		shards = append(shards, l.shard)
	}
	slices.SortFunc(shards, func(a, b Shard) int { return cmp.Compare(a.Name, b.Name) })
	return shards
}

// Departed tells of the shards that were live within the last minute and are not any more, by name.
func (p *Pool) Departed() map[string]Departure {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.departed)
}

// Assign says what every live shard owns, by shard name: the pool sends each session the difference to what it was sent,
// and everything to a new session. A live shard that owns nothing must be there with an empty list: a shard that is not
// named is told nothing and keeps what it has, so that a sampler is never emptied just because it connected between Live
// and Assign. A draining sampler's session ends with the next Assign: its roles have moved. The pool keeps the lists; the
// caller must not change them afterwards. It returns at once.
func (p *Pool) Assign(byShard map[string][]observe.Assignment) {
	now := time.Now()
	wanted := make(map[string]owned, len(byShard))
	for shard, roles := range byShard {
		wanted[shard] = owned{roles, now}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = wanted
	for l := range p.links {
		signal(l.wake)
	}
}

// signal leaves a token in c, a channel of one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
