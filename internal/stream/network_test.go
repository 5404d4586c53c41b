package stream

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// network connects a pool with samplers on pipes, by address, and can fail in the ways that networks do.
type network struct {
	mu       sync.Mutex
	samplers map[string]dialer
	pipes    map[string][]*pipe
	attempts map[string][]time.Time
}

func newNetwork() *network {
	return &network{samplers: map[string]dialer{}, pipes: map[string][]*pipe{}, attempts: map[string][]time.Time{}}
}

// dialer is what one connects to: a sampler, or what passes for one.
type dialer interface {
	DialContext(context.Context) (net.Conn, error)
}

// plug puts s on an address; nil takes what is there off it: connections are refused.
func (n *network) plug(address string, s dialer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.samplers[address] = s
}

func (n *network) dial(ctx context.Context, address string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.attempts[address] = append(n.attempts[address], time.Now())
	s := n.samplers[address]
	if s == nil {
		return nil, errors.New("connection refused")
	}
	conn, err := s.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	p := &pipe{Conn: conn, closed: make(chan struct{})}
	n.pipes[address] = append(n.pipes[address], p)
	return p, nil
}

// cut resets every connection to address.
func (n *network) cut(address string) {
	for _, p := range n.pipesOf(address) {
		_ = p.Close()
	}
}

// swallow makes every connection to address half-open: what is written is lost, and nothing is ever read.
func (n *network) swallow(address string) {
	for _, p := range n.pipesOf(address) {
		p.swallows.Store(true)
	}
}

func (n *network) pipesOf(address string) []*pipe {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pipes[address]
}

func (n *network) attemptsOf(address string) []time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]time.Time(nil), n.attempts[address]...)
}

// pipe is a connection that can become half-open: then neither end learns anything of the other, not even its close.
type pipe struct {
	net.Conn
	swallows atomic.Bool
	closed   chan struct{}
	once     sync.Once
}

func (p *pipe) Read(b []byte) (int, error) {
	for {
		n, err := p.Conn.Read(b)
		if !p.swallows.Load() {
			return n, err
		}
		if err != nil {
			<-p.closed
			return 0, net.ErrClosed
		}
	}
}

func (p *pipe) Write(b []byte) (int, error) {
	if p.swallows.Load() {
		return len(b), nil
	}
	return p.Conn.Write(b)
}

func (p *pipe) Close() error {
	p.once.Do(func() { close(p.closed) })
	if p.swallows.Load() {
		return nil // the other end closes the connection, when it finds out
	}
	return p.Conn.Close()
}

// arrival is an observation that a pool has handed over.
type arrival struct {
	shard       string
	observation observe.RoleObservation
	at          time.Time
}

// decider is a running pool that remembers what it was told.
type decider struct {
	*Pool
	logs    *observer.ObservedLogs
	stop    func()
	changes atomic.Int32

	mu       sync.Mutex
	arrivals []arrival
}

func startDecider(t *testing.T, n *network, adjust func(*PoolOptions)) *decider {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	d := &decider{logs: logs}
	options := PoolOptions{
		Leader: "decider-a", Epoch: Epoch{"lease", 3}, Log: zap.New(core), Registerer: prometheus.NewRegistry(),
		OnChange: func() { d.changes.Add(1) },
		OnObservation: func(shard string, o observe.RoleObservation, at time.Time) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.arrivals = append(d.arrivals, arrival{shard, o, at})
		},
	}
	if adjust != nil {
		adjust(&options)
	}
	d.Pool = NewPool(options)
	if n != nil {
		d.dial = n.dial
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	d.stop = sync.OnceFunc(func() { cancel(); require.NoError(t, <-done) })
	return d
}

func (d *decider) arrived() []arrival {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]arrival(nil), d.arrivals...)
}

func (d *decider) names() []string {
	names := []string{}
	for _, s := range d.Live() {
		names = append(names, s.Name)
	}
	return names
}
