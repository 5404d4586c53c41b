package stream

import (
	"errors"
	"io"
	"iter"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

var (
	errDraining = status.Error(codes.Unavailable, "the sampler is stopping")
	// always is ready to be received from.
	always = func() chan struct{} { c := make(chan struct{}); close(c); return c }()
)

// session is one leader's stream. Its goroutine does everything: it sends, and takes over what receive has read.
type session struct {
	server   *Server
	stream   sessionStream
	tenure   *tenure
	requests <-chan request
	assembly assembly
	queue    *queue
	// replay gives what is still to be sent of it, role by role, while nothing waits in the queue; nil when there is none or it
	// is over.
	replay     func() ([]observe.RoleObservation, bool)
	stopReplay func()
	replayed   int32 // observations sent of it
}

func (s *session) run(replaySpan time.Duration) error {
	o := s.server.options
	err := s.send(&observationv1.SessionResponse{Message: &observationv1.SessionResponse_Ready{Ready: &observationv1.Ready{
		Shard: o.Shard, Node: o.Node, Version: o.Version, CapacityScrapesPerSecond: o.CapacityScrapesPerSecond,
	}}})
	if replaySpan > 0 {
		s.prepareReplay(min(replaySpan, maxReplaySpan))
		defer s.stopReplay()
	}
	draining, drained := s.server.draining, (<-chan time.Time)(nil)
	for err == nil {
		select {
		case <-s.stream.Context().Done():
			return status.FromContextError(s.stream.Context().Err()).Err()
		case <-s.tenure.ended:
			return s.tenure.cause
		case r := <-s.requests:
			if errors.Is(r.err, io.EOF) {
				return nil // the leader closed the session
			}
			err = s.handle(r)
		case <-s.outgoing():
			err = s.sendNext()
		case <-draining:
			draining, drained = nil, time.After(drainTimeout)
			err = s.send(&observationv1.SessionResponse{Message: &observationv1.SessionResponse_Draining{
				Draining: &observationv1.Draining{Reason: "the sampler was told to stop"},
			}})
		case <-drained:
			return errDraining
		}
	}
	return err
}

// prepareReplay takes the backend's history. The latest of each owned role is not history: it goes the way of live
// observations, unless a later one waits there already, so that a new leader has a current reading at once.
func (s *session) prepareReplay(span time.Duration) {
	history := s.server.backend.Replay(span) // before Latest, so that nothing falls in between
	live := map[observe.RoleKey]observe.RoleObservation{}
	for _, o := range s.server.backend.Latest() {
		if s.queue.seed(stamped{o, time.Now()}) {
			live[o.Key] = o
		}
	}
	s.replay, s.stopReplay = iter.Pull(byRole(func(yield func(observe.RoleObservation) bool) {
		for o := range history {
			// A role that came back counts its passes anew: its end tells a pass from its namesake.
			if l, found := live[o.Key]; found && l.Sequence == o.Sequence && l.End.Equal(o.End) {
				continue
			}
			if !yield(o) {
				return
			}
		}
	}))
}

// outgoing is ready while there is an observation to send.
func (s *session) outgoing() <-chan struct{} {
	if s.replay != nil {
		return always
	}
	return s.queue.ready
}

// sendNext sends the next of: the queue, the replay, its end.
func (s *session) sendNext() error {
	if next, found := s.queue.take(); found {
		return s.observation(next)
	}
	if s.replay == nil {
		return nil
	}
	if next, found := s.replay(); found {
		s.replayed += int32(len(next))
		s.server.metrics.sent.Add(float64(len(next)))
		return s.send(&observationv1.SessionResponse{Message: &observationv1.SessionResponse_Replay{Replay: EncodeReplay(next)}})
	}
	s.replay = nil
	return s.send(&observationv1.SessionResponse{Message: &observationv1.SessionResponse_ReplayComplete{
		ReplayComplete: &observationv1.ReplayComplete{Observations: s.replayed},
	}})
}

func (s *session) observation(o stamped) error {
	s.server.metrics.sent.Inc()
	return s.send(&observationv1.SessionResponse{Message: &observationv1.SessionResponse_Observation{Observation: EncodeObservation(o.current())}})
}

func (s *session) send(m *observationv1.SessionResponse) error { return s.stream.Send(m) }

// handle takes over what the leader said. A role that cannot be read is left out, the others count; a breach of the protocol
// ends the session.
func (s *session) handle(r request) error {
	if r.err != nil {
		return r.err
	}
	if r.message.GetHello() != nil {
		return s.breach("hello may only come first")
	}
	part := r.message.GetAssign()
	if part == nil {
		return nil // a message of a later version
	}
	assign, whole, err := s.assembly.add(part)
	switch {
	case err != nil && !whole:
		return s.breach(err.Error())
	case err != nil:
		s.server.metrics.refused.WithLabelValues(refusedRole).Inc()
		s.server.options.Log.Warn("refused roles of an assignment", zap.Int64("revision", assign.Revision), zap.Error(err))
	}
	if whole {
		s.server.leadership.apply(s.tenure, assign)
	}
	return nil
}

func (s *session) breach(what string) error {
	s.server.metrics.refused.WithLabelValues(refusedProtocol).Inc()
	return status.Error(codes.InvalidArgument, what)
}
