package stream

import (
	"context"
	"crypto/x509"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// authorise asks allow about the certificate that TLS has verified (D51). Without TLS everybody on this machine may call.
func (s *Server) authorise(ctx context.Context, allow func(*x509.Certificate) error) error {
	if !s.secure {
		return nil
	}
	err := judge(ctx, allow)
	if err != nil {
		s.metrics.refused.WithLabelValues(refusedIdentity).Inc()
	}
	return err
}

func judge(ctx context.Context, allow func(*x509.Certificate) error) error {
	caller, _ := peer.FromContext(ctx)
	if caller == nil {
		return status.Error(codes.Unauthenticated, "the caller is not known")
	}
	info, ok := caller.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return status.Error(codes.Unauthenticated, "a client certificate is needed")
	}
	if allow == nil {
		return status.Error(codes.PermissionDenied, "nobody may make this call: no identity is listed for it")
	}
	if err := allow(info.State.VerifiedChains[0][0]); err != nil {
		return status.Errorf(codes.PermissionDenied, "judging the client certificate: %v", err)
	}
	return nil
}

func recoverUnary(log *zap.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (answer any, err error) {
		defer recovered(log, info.FullMethod, &err)
		return handler(ctx, request)
	}
}

func recoverStream(log *zap.Logger) grpc.StreamServerInterceptor {
	return func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
		defer recovered(log, info.FullMethod, &err)
		return handler(server, stream)
	}
}

// recovered, deferred, ends the call that panicked and leaves the others alone.
func recovered(log *zap.Logger, method string, err *error) {
	if cause := recover(); cause != nil {
		log.Error("recovered from a panic in a call", zap.String("method", method), zap.Any("panic", cause), zap.Stack("stack"))
		*err = status.Error(codes.Internal, "the call panicked; the log of the server has the stack")
	}
}
