package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

const (
	// Both ends ping after 10 s of silence and give up 5 s later, so that a half-open connection is found within 15 s. The
	// server allows pings twice as often as the client sends them.
	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = 5 * time.Second
	keepaliveMinimum = 5 * time.Second
	// window bounds, in bytes, what is under way to a reader that does not read, and with it how old an age can get there.
	window               = 64 << 10
	maxConcurrentStreams = 64       // of one connection
	maxHeaders           = 64 << 10 // bytes: room for a large token
	handshakeTimeout     = 10 * time.Second
	// stopTimeout is what a graceful stop may take in all.
	stopTimeout = 7 * time.Second
)

// NewGRPC makes a gRPC server with the limits and the keepalive of this project; a panic ends its call alone.
func NewGRPC(creds credentials.TransportCredentials, log *zap.Logger, more ...grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append([]grpc.ServerOption{
		grpc.Creds(creds),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.MaxRecvMsgSize(MaxMessage),
		grpc.MaxSendMsgSize(MaxMessage),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.MaxConcurrentStreams(maxConcurrentStreams),
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(window),
		grpc.KeepaliveParams(ServerKeepalive()),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveMinimum, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(recoverUnary(log)),
		grpc.StreamInterceptor(recoverStream(log)),
	}, more...)...)
}

// ServerKeepalive of such a server.
func ServerKeepalive() keepalive.ServerParameters {
	return keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}
}

// ServeGRPC serves until ctx ends, then calls drain, which tells running calls to end, gives them 7 s, and returns nil.
func ServeGRPC(ctx context.Context, server *grpc.Server, listener net.Listener, drain func()) error {
	defer server.Stop() // after a graceful stop there is nothing left to do
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving gRPC on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	drain()
	forced := time.AfterFunc(stopTimeout, server.Stop)
	defer forced.Stop()
	server.GracefulStop()
	if err := <-served; !errors.Is(err, grpc.ErrServerStopped) { // the context had ended before it began
		return err
	}
	return nil
}

// DialOptions of a client of such a server.
func DialOptions(creds credentials.TransportCredentials) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithNoProxy(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout, PermitWithoutStream: true}),
		grpc.WithStaticStreamWindowSize(window),
		grpc.WithStaticConnWindowSize(window),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
	}
}
