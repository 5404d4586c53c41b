package stream

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/internal/process"
)

// readyTimeout is what connecting and the exchange of Hello and Ready may take.
const readyTimeout = 10 * time.Second

var errNotReady = errors.New("the sampler did not answer in time")

// session connects to m and serves one session to its end. It says how long the session lived, from Ready; the error has a
// gRPC code, OK (nil) when the sampler drained.
func (p *Pool) session(ctx context.Context, m Member, reporter *reporter) (lived time.Duration, err error) {
	heard := &hearing{born: time.Now()}
	conn, err := p.connect(m, heard)
	if err != nil {
		return 0, status.Errorf(codes.InvalidArgument, "connecting to sampler %s at %s: %v", m.Name, m.Address, err)
	}
	defer func() { _ = conn.Close() }() // fails only when closed twice
	calls, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	link, err := p.greet(calls, cancel, conn)
	if err != nil {
		return 0, err
	}
	if err := p.join(link); err != nil {
		return 0, err
	}
	defer func() { p.leave(link, Departure{Final: ctx.Err() != nil, At: heard.lost(time.Now())}) }()
	reporter.opened(link.shard)
	start := time.Now()
	done := make(chan struct{})
	defer func() { cancel(nil); <-done }()
	go func() { defer close(done); link.tell(calls) }()
	err = link.listen()
	return time.Since(start), err
}

func (p *Pool) connect(m Member, heard *hearing) (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if p.options.TLS != nil {
		creds = credentials.NewTLS(p.options.TLS)
	} else if p.dial == nil && !process.IsLoopback(m.Address) {
		return nil, errors.New("without TLS only loopback addresses are connected to")
	}
	options := append(DialOptions(creds),
		grpc.WithContextDialer(heard.over(p.dial)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: grpcbackoff.DefaultConfig, MinConnectTimeout: backoffMax}))
	return grpc.NewClient("passthrough:///"+m.Address, options...)
}

// greet opens the stream, says Hello and awaits Ready.
func (p *Pool) greet(ctx context.Context, cancel context.CancelCauseFunc, conn *grpc.ClientConn) (*link, error) {
	late := time.AfterFunc(readyTimeout, func() { cancel(errNotReady) })
	defer late.Stop()
	stream, err := observationv1.NewSamplerServiceClient(conn).Session(ctx)
	if err != nil {
		return nil, err
	}
	hello := &observationv1.Hello{
		Leader:     p.options.Leader,
		Epoch:      &observationv1.Epoch{LeaseUid: p.options.Epoch.LeaseUID, Transitions: p.options.Epoch.Transitions},
		ReplaySpan: durationpb.New(p.options.ReplaySpan),
	}
	// A failed send says only that the stream ended; receiving says why.
	_ = stream.Send(&observationv1.SessionRequest{Message: &observationv1.SessionRequest_Hello{Hello: hello}})
	first, err := stream.Recv()
	if cause := context.Cause(ctx); errors.Is(cause, errNotReady) {
		return nil, status.Errorf(codes.DeadlineExceeded, "no ready within %s", readyTimeout)
	}
	if err != nil {
		return nil, err
	}
	shard, err := checkReady(first.GetReady())
	if err != nil {
		return nil, err
	}
	shard.Replayed = p.options.ReplaySpan <= 0
	return &link{pool: p, stream: stream, shard: shard, wake: make(chan struct{}, 1)}, nil
}

func checkReady(ready *observationv1.Ready) (Shard, error) {
	d := &decoder{}
	if ready == nil {
		return Shard{}, status.Error(codes.InvalidArgument, "the first message must be ready")
	}
	shard := Shard{
		Name:     d.name("ready.shard", ready.GetShard()),
		Node:     d.text("ready.node", ready.GetNode(), maxText),
		Version:  d.text("ready.version", ready.GetVersion(), maxText),
		Capacity: d.number("ready.capacity_scrapes_per_second", ready.GetCapacityScrapesPerSecond()),
	}
	if d.err != nil {
		return Shard{}, status.Error(codes.InvalidArgument, d.err.Error())
	}
	return shard, nil
}
