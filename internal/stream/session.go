package stream

import (
	"context"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
)

const (
	helloTimeout  = 10 * time.Second
	maxReplaySpan = 30 * time.Minute // D55
)

type sessionStream = grpc.BidiStreamingServer[observationv1.SessionRequest, observationv1.SessionResponse]

// Session serves a leader: SamplerService.Session.
func (s *Server) Session(stream sessionStream) error {
	if err := s.authorise(stream.Context(), s.options.Sessions); err != nil {
		return err
	}
	requests := receive(stream)
	hello, err := awaitHello(stream.Context(), requests)
	if err != nil {
		s.metrics.refused.WithLabelValues(refusedProtocol).Inc()
		return err
	}
	epoch := Epoch{LeaseUID: hello.GetEpoch().GetLeaseUid(), Transitions: hello.GetEpoch().GetTransitions()}
	tenure, err := s.leadership.begin(hello.GetLeader(), epoch)
	if err != nil {
		s.metrics.refused.WithLabelValues(refusedEpoch).Inc()
		s.options.Log.Warn("refused a session", zap.String("leader", hello.GetLeader()), zap.Error(err))
		return err
	}
	defer s.leadership.end(tenure)
	s.metrics.sessions.Inc()
	defer s.metrics.sessions.Dec()
	s.options.Log.Info("opened a session", zap.String("leader", tenure.leader), zap.Any("epoch", tenure.epoch))

	session := &session{server: s, stream: stream, tenure: tenure, requests: requests, queue: s.hub.subscribe(everyRole)}
	defer s.hub.unsubscribe(session.queue)
	err = session.run(hello.GetReplaySpan().AsDuration())
	s.options.Log.Info("ended a session", zap.String("leader", tenure.leader), zap.Error(err))
	return err
}

// request is what Recv returned.
type request struct {
	message *observationv1.SessionRequest
	err     error
}

// receive reads the stream in a goroutine, which ends after the first error: the handler's return makes one.
func receive(stream sessionStream) <-chan request {
	requests := make(chan request)
	go func() {
		for {
			message, err := stream.Recv()
			select {
			case requests <- request{message, err}:
			case <-stream.Context().Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return requests
}

// awaitHello takes the first message, which must be a complete Hello.
func awaitHello(ctx context.Context, requests <-chan request) (*observationv1.Hello, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	select {
	case <-ctx.Done():
		return nil, status.Errorf(codes.DeadlineExceeded, "no hello within %s", helloTimeout)
	case r := <-requests:
		if r.err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "the stream ended before hello: %v", r.err)
		}
		return checkHello(r.message.GetHello())
	}
}

func checkHello(hello *observationv1.Hello) (*observationv1.Hello, error) {
	d := &decoder{}
	if hello == nil {
		return nil, status.Error(codes.InvalidArgument, "the first message must be hello")
	}
	d.name("hello.leader", hello.GetLeader())
	d.name("hello.epoch.lease_uid", hello.GetEpoch().GetLeaseUid())
	d.duration("hello.replay_span", hello.GetReplaySpan())
	if hello.GetEpoch().GetTransitions() < 0 {
		d.fail("hello.epoch.transitions", "must not be negative")
	}
	if d.err != nil {
		return nil, status.Error(codes.InvalidArgument, d.err.Error())
	}
	return hello, nil
}
