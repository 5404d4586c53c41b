package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"gpustack.ai/model-deployment-scaler/dev/measure"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/stream"
)

// load starts the processes, plays the decider, measures and reports.
func load(ctx context.Context, o options) error {
	ctx, stop := context.WithCancel(ctx)
	g, ctx := errgroup.WithContext(ctx)
	defer func() {
		stop()
		_ = g.Wait()
	}()
	addresses, err := startEngines(ctx, g, o)
	if err != nil {
		return err
	}
	s, err := startSampler(ctx, g, o)
	if err != nil {
		return err
	}
	assignments, answering, err := assign(o, addresses)
	if err != nil {
		return err
	}
	seen := &observations{answering: answering, rolesOf: map[observe.RoleKey]*passes{}}
	pool := stream.NewPool(stream.PoolOptions{
		Leader: "samplerload", Epoch: stream.Epoch{LeaseUID: "samplerload", Transitions: 1},
		OnObservation: func(_ string, obs observe.RoleObservation, _ time.Time) { seen.add(obs) },
		OnChange:      func() {}, Log: zap.NewNop(), Registerer: prometheus.NewRegistry(),
	})
	g.Go(func() error { return pool.Run(ctx) })
	pool.SetMembers([]stream.Member{{Name: "sampler", Address: s.grpc}})
	if err := awaitLive(ctx, pool); err != nil {
		return err
	}
	pool.Assign(map[string][]observe.Assignment{"sampler": assignments})
	fmt.Printf("%d Pods in %d roles, every %s; warming up for %s, measuring for %s; the sampler's metrics are on %s\n",
		o.pods, len(assignments), o.interval, o.warmUp, o.measure, s.admin)
	if err := measure.Pause(ctx, o.warmUp); err != nil {
		return err
	}
	seen.reset()
	m, err := s.measure(ctx, o.measure)
	if err != nil {
		return err
	}
	return report(os.Stdout, o, m, seen)
}

func awaitLive(ctx context.Context, pool *stream.Pool) error {
	for deadline := time.Now().Add(20 * time.Second); len(pool.Live()) == 0; {
		if time.Now().After(deadline) {
			return errors.New("connecting to the sampler: it did not come up in 20s")
		}
		if err := measure.Pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func startEngines(ctx context.Context, g *errgroup.Group, o options) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, enginesArgument, "--page", o.page, fmt.Sprintf("--pods=%d", o.pods), fmt.Sprintf("--pods-per-role=%d", o.perRole))
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	defer func() { _ = r.Close() }()
	cmd.Stdout = w
	err = measure.Start(ctx, g, cmd)
	_ = w.Close() // it is the engines' now
	if err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(r).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("waiting for the engines: %w", err)
	}
	var addresses []string
	if err := json.Unmarshal(line, &addresses); err != nil {
		return nil, fmt.Errorf("reading the engines' addresses: %w", err)
	}
	return addresses, nil
}

// assign makes the roles, whose Pods are spread over the engines' addresses, and says how many of each will answer.
func assign(o options, addresses []string) ([]observe.Assignment, map[observe.RoleKey]int, error) {
	out, answering := make([]observe.Assignment, roles(o)), map[observe.RoleKey]int{}
	last := len(addresses) - 1
	for i := range o.pods {
		address := addresses[i%last]
		if o.isSilent(i) {
			address = addresses[last]
		}
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the address of an engine: %w", err)
		}
		role := i / o.perRole
		a := &out[role]
		a.Key = observe.RoleKey{Namespace: "load", Deployment: fmt.Sprintf("d%04d", role), UID: fmt.Sprint(role), Role: "server"}
		a.Kind, a.Interval, a.LastScrapeAge = observe.Server, o.interval, -1
		a.Pods = append(a.Pods, observe.Pod{
			Name: fmt.Sprintf("d%04d-server-%d", role, i%o.perRole), UID: fmt.Sprint("pod-", i), Incarnation: "1", Ordinal: i % o.perRole,
			Address: at.Addr().String(), Port: int(at.Port()), Scheme: "http", Path: fmt.Sprintf("/metrics?role=%d", role),
		})
		a.ReadyReplicas = len(a.Pods)
		if !o.isSilent(i) {
			answering[a.Key]++
		}
	}
	return out, answering, nil
}

// observations counts what arrives.
type observations struct {
	answering map[observe.RoleKey]int // Pods that do
	mu        sync.Mutex
	rolesOf   map[observe.RoleKey]*passes
}

// passes over one role.
type passes struct{ all, complete int }

func (s *observations) add(o observe.RoleObservation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.rolesOf[o.Key]
	if p == nil {
		p = &passes{}
		s.rolesOf[o.Key] = p
	}
	p.all++
	if n := s.answering[o.Key]; o.Coverage.Rated == n && (n == 0 || o.Generation.Float64 > 0) {
		p.complete++
	}
}

func (s *observations) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.rolesOf)
}
