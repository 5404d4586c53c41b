package stream

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// maxWatches of one sampler: each costs a queue and an encoding of every observation.
const maxWatches = 64

// Watch serves an observer the latest observation of each selected role, then every new one: SamplerService.Watch.
func (s *Server) Watch(r *observationv1.SamplerServiceWatchRequest, stream grpc.ServerStreamingServer[observationv1.SamplerServiceWatchResponse]) error {
	if err := s.authorise(stream.Context(), s.options.Observers); err != nil {
		return err
	}
	defer s.watches.Add(-1)
	if s.watches.Add(1) > maxWatches {
		return status.Errorf(codes.ResourceExhausted, "%d watches are open already", maxWatches)
	}
	s.metrics.watches.Inc()
	defer s.metrics.watches.Dec()

	queue := s.hub.subscribe(selects(r))
	defer s.hub.unsubscribe(queue)
	now := time.Now()
	for _, o := range s.backend.Latest() {
		queue.seed(stamped{o, now})
	}
	return s.watch(queue, stream)
}

func (s *Server) watch(queue *queue, stream grpc.ServerStreamingServer[observationv1.SamplerServiceWatchResponse]) error {
	for {
		select {
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-s.draining:
			return errDraining
		case <-queue.ready:
		}
		next, found := queue.take()
		if !found {
			continue
		}
		s.metrics.sent.Inc()
		if err := stream.Send(&observationv1.SamplerServiceWatchResponse{Observation: EncodeObservation(next.current())}); err != nil {
			return err
		}
	}
}

func everyRole(observe.RoleKey) bool { return true }

// selects makes the filter of a watch.
func selects(r *observationv1.SamplerServiceWatchRequest) func(observe.RoleKey) bool {
	return func(k observe.RoleKey) bool {
		return (r.GetNamespace() == "" || r.GetNamespace() == k.Namespace) && (r.GetDeployment() == "" || r.GetDeployment() == k.Deployment)
	}
}
