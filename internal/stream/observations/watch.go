package observations

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
)

// stallTimeout is how long a reader may take for one message before its watch is ended.
const stallTimeout = 30 * time.Second

var (
	errDraining = status.Error(codes.Unavailable, "this copy of the decider stops: watch again")
	errEnded    = status.Error(codes.Unavailable, "this copy of the decider leads no more: watch again")
	errSlow     = status.Error(codes.ResourceExhausted, "the reader is too slow: read faster, or watch less, and watch again")
)

type watchStream = grpc.ServerStreamingServer[observationv1.ObservationServiceWatchResponse]

func selectorOf(p *observationv1.ObservationSelector) selector {
	return selector{namespace: p.GetNamespace(), scaler: p.GetScaler(), role: p.GetRole()}
}

// Watch serves a snapshot and then every change: ObservationService.Watch.
func (s *Server) Watch(r *observationv1.ObservationServiceWatchRequest, stream watchStream) error {
	ctx := stream.Context()
	if err := s.authorise(ctx, r.GetSelector().GetNamespace()); err != nil {
		return err
	}
	if err := s.places.take(callerOf(ctx)); err != nil {
		s.metrics.refused.WithLabelValues(refusedLimit).Inc()
		return err
	}
	defer s.places.leave(callerOf(ctx))
	s.metrics.watches.Inc()
	defer s.metrics.watches.Dec()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go s.keepReviewed(ctx, cancel, r.GetSelector().GetNamespace())
	w := &watch{server: s, stream: stream, ctx: ctx}
	if v := s.leading(); v != nil {
		return w.follow(v, selectorOf(r.GetSelector()))
	}
	return w.relay(r)
}

// keepReviewed ends the watch of a caller who has lost his right, and all when the server stops.
func (s *Server) keepReviewed(ctx context.Context, end context.CancelCauseFunc, namespace string) {
	tick := time.NewTicker(reviewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.draining:
			end(errDraining)
			return
		case <-tick.C:
		}
		if err := s.review(ctx, namespace); err != nil && ctx.Err() == nil {
			end(err)
			return
		}
	}
}

// watch is one open watch.
type watch struct {
	server *Server
	stream watchStream
	ctx    context.Context // ends with the stream, or with the cause to end it
}

// follow serves from the view of this copy while it leads.
func (w *watch) follow(v *View, s selector) error {
	snapshot, queue := v.watch(s)
	defer v.unwatch(queue)
	for _, e := range sorted(snapshot) {
		if err := w.send(e.update(time.Now()), v.ended); err != nil {
			return err
		}
	}
	complete := &observationv1.ObservationServiceWatchResponse{Message: &observationv1.ObservationServiceWatchResponse_SnapshotComplete{
		SnapshotComplete: &observationv1.SnapshotComplete{Leader: w.server.options.Identity},
	}}
	if err := w.send(complete, v.ended); err != nil {
		return err
	}
	for {
		select {
		case <-w.ctx.Done():
			return w.cause()
		case <-v.ended:
			return errEnded
		case <-queue.ready:
		}
		e, over := queue.take()
		if over {
			return w.slow()
		}
		if e == nil {
			continue
		}
		if err := w.send(e.update(time.Now()), v.ended); err != nil {
			return err
		}
	}
}

// send waits for the reader, but not for ever. When the watch ends meanwhile, so does the call of Send that is left behind:
// its stream is over.
func (w *watch) send(m *observationv1.ObservationServiceWatchResponse, ended <-chan struct{}) error {
	sent := make(chan error, 1)
	go func() { sent <- w.stream.Send(m) }()
	stalled := time.NewTimer(stallTimeout)
	defer stalled.Stop()
	select {
	case err := <-sent:
		w.server.metrics.sent.Inc()
		return err
	case <-w.ctx.Done():
		return w.cause()
	case <-ended:
		return errEnded
	case <-stalled.C:
		return w.slow()
	}
}

func (w *watch) slow() error {
	w.server.metrics.refused.WithLabelValues(refusedSlow).Inc()
	return errSlow
}

// cause of the end: the caller went, or a status of ours.
func (w *watch) cause() error {
	if err := w.stream.Context().Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	return context.Cause(w.ctx)
}
