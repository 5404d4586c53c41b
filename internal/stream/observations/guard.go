package observations

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

const (
	// maxWatches of one copy, and of one user: each costs a queue and an encoding of every change.
	maxWatches        = 256
	maxWatchesOfAUser = 32
	// reviewEvery is how soon an open watch notices that its caller has lost his right.
	reviewEvery = time.Minute
)

type callerKey struct{}

// callerOf is who makes a call that passed the guard.
func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// guardUnary lets known callers in, to reflection too. Health checks are open: probes have no credentials, and all they learn
// is that the server serves.
func (s *Server) guardUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if s.access == nil || info.FullMethod == healthv1.Health_Check_FullMethodName {
		return handler(ctx, request)
	}
	c, err := s.access.caller(ctx)
	if err != nil {
		return nil, err
	}
	return handler(context.WithValue(ctx, callerKey{}, c), request)
}

func (s *Server) guardStream(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if s.access == nil {
		return handler(server, stream)
	}
	c, err := s.access.caller(stream.Context())
	if err != nil {
		return err
	}
	return handler(server, guarded{stream, context.WithValue(stream.Context(), callerKey{}, c)})
}

// guarded is a stream whose caller is known.
type guarded struct {
	grpc.ServerStream
	ctx context.Context
}

func (g guarded) Context() context.Context { return g.ctx }

// authorise a call of a known caller; on insecure loopback everybody may.
func (s *Server) authorise(ctx context.Context, namespace string) error {
	if s.access == nil {
		return nil
	}
	return s.access.authorise(ctx, callerOf(ctx), namespace)
}

// review asks everything anew. An API server that does not answer ends nothing that was allowed.
func (s *Server) review(ctx context.Context, namespace string) error {
	if s.access == nil {
		return nil
	}
	c, err := s.access.caller(ctx)
	if err == nil {
		err = s.access.authorise(ctx, c, namespace)
	}
	if status.Code(err) == codes.Unavailable {
		return nil
	}
	return err
}

// places bounds the open watches. Those that another copy forwards count together.
type places struct {
	mu     sync.Mutex
	all    int
	byUser map[string]int
}

// take a place; the caller must leave it.
func (p *places) take(c caller) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all >= maxWatches {
		return status.Errorf(codes.ResourceExhausted, "%d watches are open already: try again later, or ask another copy", maxWatches)
	}
	if !c.copy && p.byUser[c.user.Username] >= maxWatchesOfAUser {
		return status.Errorf(codes.ResourceExhausted, "%d watches of %s are open already: close one", maxWatchesOfAUser, c.user.Username)
	}
	p.all++
	if !c.copy {
		p.byUser[c.user.Username]++
	}
	return nil
}

func (p *places) leave(c caller) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	if c.copy {
		return
	}
	if p.byUser[c.user.Username]--; p.byUser[c.user.Username] == 0 {
		delete(p.byUser, c.user.Username)
	}
}
