package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/stream"
)

// tick is how often a sampler looks whose turn it is.
const tick = 20 * time.Millisecond

// sampler is a real server whose observations are made up.
type sampler struct {
	server *stream.Server
	demand *demand

	mu    sync.Mutex
	roles map[observe.RoleKey]*role
}

type role struct {
	assignment observe.Assignment
	next       time.Time
	sequence   uint64
	latest     observe.RoleObservation
}

// startSamplers starts n of them and gives their addresses.
func startSamplers(ctx context.Context, g *errgroup.Group, n int, d *demand) ([]string, error) {
	var addresses []string
	for i := range n {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("listening as a sampler: %w", err)
		}
		s := &sampler{demand: d, roles: map[observe.RoleKey]*role{}}
		s.server = stream.NewServer(stream.ServerOptions{
			Shard: fmt.Sprint("sampler-", i), Version: "simulated", CapacityScrapesPerSecond: 200, Log: zap.NewNop(), Registerer: prometheus.NewRegistry(),
		}, s)
		g.Go(func() error {
			if err := s.server.Serve(ctx, listener, nil); err != nil && !errors.Is(err, context.Canceled) {
				return fmt.Errorf("serving as a sampler: %w", err)
			}
			return nil
		})
		g.Go(func() error { s.run(ctx); return nil })
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses, nil
}

// run publishes an observation of every role every interval.
func (s *sampler) run(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			s.publish(now)
		}
	}
}

func (s *sampler) publish(now time.Time) {
	var due []observe.RoleObservation
	s.mu.Lock()
	for _, r := range s.roles {
		if r.next.After(now) {
			continue
		}
		r.sequence++
		r.next = r.next.Add(r.assignment.Interval)
		r.latest = observation(r.assignment, r.sequence, now, s.demand.of(r.assignment.Key)(now))
		due = append(due, r.latest)
	}
	s.mu.Unlock()
	for _, o := range due {
		s.server.Publish(o)
		s.demand.told(o.Key, o.End, o.Interval)
	}
}

func (s *sampler) Apply(a stream.Assign) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := make(map[observe.RoleKey]bool, len(a.Upserts))
	for _, u := range a.Upserts {
		wanted[u.Key] = true
		if known := s.roles[u.Key]; known != nil {
			known.assignment = u
			continue
		}
		s.roles[u.Key] = &role{assignment: u, next: time.Now().Add(time.Duration(hash(u.Key) % uint64(u.Interval)))}
	}
	for key := range s.roles {
		if a.Full && !wanted[key] {
			delete(s.roles, key)
		}
	}
	for _, key := range a.Removals {
		delete(s.roles, key)
	}
}

func (*sampler) SessionStarted(string) {}
func (*sampler) SessionEnded()         {}

// Replay tells of the time before, too: a fleet that has been there for a while.
func (s *sampler) Replay(span time.Duration) iter.Seq[observe.RoleObservation] {
	assignments, now := s.assignments(), time.Now()
	return func(yield func(observe.RoleObservation) bool) {
		for _, a := range assignments {
			tokens := s.demand.of(a.Key)
			for age := span; age > 0; age -= interval {
				end := now.Add(-age)
				o := observation(a, uint64(span-age), end, tokens(end))
				o.Age = time.Since(o.End)
				if !yield(o) {
					return
				}
			}
		}
	}
}

func (s *sampler) assignments() (list []observe.Assignment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.roles {
		list = append(list, r.assignment)
	}
	return list
}

func (s *sampler) Latest() (list []observe.RoleObservation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.roles {
		if r.sequence > 0 {
			o := r.latest
			o.Age = time.Since(o.End)
			list = append(list, o)
		}
	}
	return list
}
