package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
)

const (
	firstRetry = 500 * time.Millisecond
	// longestRetry is short: a fail-over takes 15 s, and what the next leader does first is what one wants to see.
	longestRetry = 2 * time.Second
	refreshEvery = 500 * time.Millisecond
)

// follower keeps a watch open and shows what it brings.
type follower struct {
	// reach connects to a decider; the connection is made anew for every watch, credentials included.
	reach   func(context.Context) (connection, error)
	request *observationv1.ObservationServiceWatchRequest
	show    display
	wait    func(time.Duration) <-chan time.Time
}

// connection to a decider.
type connection interface {
	grpc.ClientConnInterface
	io.Closer
}

// fatalError ends a watch that trying again cannot help.
type fatalError struct{ error }

func (e fatalError) Unwrap() error { return e.error }

// run watches until ctx ends, and returns nil then; or until the decider refuses.
func (f *follower) run(ctx context.Context) error {
	told := "" // what has been told of this outage last
	for failures := 0; ; failures++ {
		complete, err := f.watch(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // being told to end is no failure
		}
		if refused(err) {
			return fmt.Errorf("watching: %w", err)
		}
		if complete {
			failures, told = 0, ""
		}
		if cause := status.Convert(err).Message(); cause != told {
			f.show.note(cause + "; watching again as soon as there is an answer")
			told = cause
		}
		if err := f.show.refresh(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.wait(wait.Jitter(min(longestRetry, firstRetry<<min(failures, 5)), 0.5)):
		}
	}
}

// refused says that the same call would end the same way.
func refused(err error) bool {
	if errors.As(err, new(fatalError)) {
		return true
	}
	switch status.Code(err) {
	case codes.Unauthenticated, codes.PermissionDenied, codes.InvalidArgument, codes.Unimplemented:
		return true
	}
	return false
}

// watch once, to the end of the connection. It says whether the snapshot was complete.
func (f *follower) watch(ctx context.Context) (complete bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := f.reach(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }() // fails only when closed twice
	stream, err := observationv1.NewObservationServiceClient(conn).Watch(ctx, f.request)
	if err != nil {
		return false, err
	}
	f.show.begin()
	messages, ended := receive(ctx, stream)
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return complete, err
		case m := <-messages:
			complete = complete || m.GetSnapshotComplete() != nil
			if err := f.show.show(m); err != nil {
				return complete, fatalError{err}
			}
		case <-tick.C:
			if err := f.show.refresh(); err != nil {
				return complete, fatalError{err}
			}
		}
	}
}

// receive hands over messages until the stream or ctx ends.
func receive(ctx context.Context, stream grpc.ServerStreamingClient[observationv1.ObservationServiceWatchResponse]) (
	<-chan *observationv1.ObservationServiceWatchResponse, <-chan error,
) {
	messages, ended := make(chan *observationv1.ObservationServiceWatchResponse), make(chan error, 1)
	go func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				ended <- err
				return
			}
			select {
			case messages <- m:
			case <-ctx.Done():
				ended <- ctx.Err()
				return
			}
		}
	}()
	return messages, ended
}
