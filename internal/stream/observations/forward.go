package observations

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/internal/stream"
)

// forwardedKey marks calls that were forwarded. Who sets it without being a copy only keeps his call from being forwarded.
const forwardedKey = "x-mds-forwarded"

// leader finds the copy to forward to. A call that was forwarded already goes nowhere else.
func (s *Server) leader(ctx context.Context) (Leader, observationv1.ObservationServiceClient, error) {
	l := s.options.Leader()
	switch {
	case len(metadata.ValueFromIncomingContext(ctx, forwardedKey)) > 0:
		return l, nil, status.Errorf(codes.Unavailable, "%s does not lead", s.options.Identity)
	case l.Identity == "":
		return l, nil, status.Error(codes.Unavailable, "no copy of the decider leads at the moment: try again")
	case l.Identity == s.options.Identity:
		return l, nil, status.Error(codes.Unavailable, "this copy of the decider is about to lead, or has just stopped: try again")
	case l.Address == "":
		return l, nil, status.Errorf(codes.Unavailable, "this copy stands by, and the leader %s has not said where it can be reached: "+
			"give its --grpc-address a host, or set POD_IP", l.Identity)
	}
	client, err := s.forward.to(l.Address)
	if err != nil {
		return l, nil, status.Errorf(codes.Unavailable, "connecting to the leader %s: %v", l.Identity, err)
	}
	s.metrics.forwarded.Inc()
	return l, client, nil
}

func (s *Server) relayList(ctx context.Context, r *observationv1.ObservationServiceListRequest) (*observationv1.ObservationServiceListResponse, error) {
	l, client, err := s.leader(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := client.List(forwarded(ctx), r)
	if err != nil {
		return nil, relayed(ctx, l, err)
	}
	answer.ForwardedBy = s.options.Identity
	return answer, nil
}

// relay hands on what the leader sends. The reader's pace becomes the leader's, whose queue replaces what waits.
func (w *watch) relay(r *observationv1.ObservationServiceWatchRequest) error {
	l, client, err := w.server.leader(w.ctx)
	if err != nil {
		return err
	}
	upstream, err := client.Watch(forwarded(w.ctx), r)
	if err != nil {
		return relayed(w.ctx, l, err)
	}
	for {
		m, err := upstream.Recv()
		if w.ctx.Err() != nil {
			return w.cause()
		}
		if err != nil {
			return relayed(w.ctx, l, err)
		}
		if complete := m.GetSnapshotComplete(); complete != nil {
			complete.ForwardedBy = w.server.options.Identity
		}
		if err := w.send(m, nil); err != nil {
			return err
		}
	}
}

func forwarded(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, forwardedKey, "1")
}

// relayed says what ended a forwarded call. What the leader says of this copy's own connection or credentials is no matter
// of the caller's: to him the leader is unavailable.
func relayed(ctx context.Context, l Leader, err error) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	switch code := status.Code(err); {
	case code == codes.InvalidArgument || code == codes.ResourceExhausted:
		return err
	case errors.Is(err, io.EOF):
		return status.Errorf(codes.Unavailable, "the leader %s ended the call: try again", l.Identity)
	default:
		return status.Errorf(codes.Unavailable, "the leader %s: %s: %s; try again", l.Identity, code, status.Convert(err).Message())
	}
}

// forwarder keeps the connection to the leader.
type forwarder struct {
	config *tls.Config // nil: insecure loopback

	mu      sync.Mutex
	address string
	conn    *grpc.ClientConn // nil: none yet
}

// to gives a client of the leader at address. A connection to another is closed, and what it carried ends.
func (f *forwarder) to(address string) (observationv1.ObservationServiceClient, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conn == nil || f.address != address {
		creds := insecure.NewCredentials()
		if f.config != nil {
			creds = credentials.NewTLS(f.config)
		}
		conn, err := grpc.NewClient("passthrough:///"+address, stream.DialOptions(creds)...)
		if err != nil {
			return nil, err
		}
		f.drop()
		f.address, f.conn = address, conn
	}
	return observationv1.NewObservationServiceClient(f.conn), nil
}

// drop the connection; with f.mu held.
func (f *forwarder) drop() {
	if f.conn != nil {
		_ = f.conn.Close() // fails only when closed twice
		f.conn = nil
	}
}

func (f *forwarder) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop()
}
