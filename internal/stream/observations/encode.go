package observations

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/internal/stream"
)

// update is the message of a watch for an entry, ages as of now.
func (e *entry) update(now time.Time) *observationv1.ObservationServiceWatchResponse {
	if e.gone {
		return &observationv1.ObservationServiceWatchResponse{Message: &observationv1.ObservationServiceWatchResponse_Removed{
			Removed: &observationv1.Removed{Namespace: e.namespace, Scaler: e.scaler, Role: e.role},
		}}
	}
	return &observationv1.ObservationServiceWatchResponse{Message: &observationv1.ObservationServiceWatchResponse_Observation{
		Observation: e.encode(now),
	}}
}

func (e *entry) encode(now time.Time) *observationv1.ScalerObservation {
	p := &observationv1.ScalerObservation{
		Namespace: e.namespace,
		Scaler:    e.scaler,
		Role:      e.role,
		Shard:     e.latest.Shard,
		Plan:      e.encodePlan(),
		PlanTime:  timestamppb.New(e.pass.Time),
		Hold:      e.pass.Hold,
	}
	if e.latest.Observation != nil {
		o := *e.latest.Observation
		o.Age += now.Sub(e.pass.Time) // both on the monotonic clock (D12)
		p.Observation = stream.EncodeObservation(o)
	}
	return p
}

func (e *entry) encodePlan() *observationv1.RolePlan {
	p := &observationv1.RolePlan{
		CurrentReplicas:        e.latest.Current,
		ReadyReplicas:          e.latest.Ready,
		SignalState:            string(e.latest.Signal),
		RawRecommendedReplicas: e.latest.Raw,
		ConstrainedReplicas:    e.latest.Constrained,
		Reason:                 e.latest.Reason,
		DecisionId:             e.pass.DecisionID,
	}
	for _, step := range e.latest.Trace {
		p.Trace = append(p.Trace, &observationv1.PlanStep{Stage: step.Stage, Replicas: step.Replicas, Rule: step.Rule})
	}
	return p
}
