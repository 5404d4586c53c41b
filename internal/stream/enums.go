package stream

import (
	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// The tables of both spellings. What is not in a table becomes the zero value of the other side: "not set" on the wire, and
// the unknown kind, reason or source in observe, each of which is the careful reading.
var (
	kinds = newEnum(map[observe.RoleKind]observationv1.RoleKind{
		observe.Server:  observationv1.RoleKind_ROLE_KIND_SERVER,
		observe.Prefill: observationv1.RoleKind_ROLE_KIND_PREFILL,
		observe.Decode:  observationv1.RoleKind_ROLE_KIND_DECODE,
		observe.Encode:  observationv1.RoleKind_ROLE_KIND_ENCODE,
	})
	states = newEnum(map[observe.SignalState]observationv1.SignalState{
		observe.Fresh:   observationv1.SignalState_SIGNAL_STATE_FRESH,
		observe.Idle:    observationv1.SignalState_SIGNAL_STATE_IDLE,
		observe.Missing: observationv1.SignalState_SIGNAL_STATE_MISSING,
	})
	reasons = newEnum(map[observe.UncoveredReason]observationv1.UncoveredReason{
		observe.OverCap:        observationv1.UncoveredReason_UNCOVERED_REASON_OVER_CAP,
		observe.Unreachable:    observationv1.UncoveredReason_UNCOVERED_REASON_UNREACHABLE,
		observe.Timeout:        observationv1.UncoveredReason_UNCOVERED_REASON_TIMEOUT,
		observe.HTTPStatus:     observationv1.UncoveredReason_UNCOVERED_REASON_HTTP_STATUS,
		observe.TooLarge:       observationv1.UncoveredReason_UNCOVERED_REASON_TOO_LARGE,
		observe.Malformed:      observationv1.UncoveredReason_UNCOVERED_REASON_MALFORMED,
		observe.NoEngineSeries: observationv1.UncoveredReason_UNCOVERED_REASON_NO_ENGINE_SERIES,
		observe.InvalidValue:   observationv1.UncoveredReason_UNCOVERED_REASON_INVALID_VALUE,
		observe.NoBaseline:     observationv1.UncoveredReason_UNCOVERED_REASON_NO_BASELINE,
		observe.Reset:          observationv1.UncoveredReason_UNCOVERED_REASON_RESET,
		observe.NotScraped:     observationv1.UncoveredReason_UNCOVERED_REASON_NOT_SCRAPED,
	})
	sources = newEnum(map[observe.LatencySource]observationv1.LatencySource{
		observe.FromBucket: observationv1.LatencySource_LATENCY_SOURCE_BUCKET,
		observe.FromMean:   observationv1.LatencySource_LATENCY_SOURCE_MEAN,
	})
)

// enum translates between a value of observe and its number on the wire.
type enum[V ~string, N ~int32] struct {
	numbers map[V]N
	values  map[N]V
}

func newEnum[V ~string, N ~int32](numbers map[V]N) enum[V, N] {
	values := make(map[N]V, len(numbers))
	for v, n := range numbers {
		values[n] = v
	}
	return enum[V, N]{numbers, values}
}

func (e enum[V, N]) encode(v V) N { return e.numbers[v] }
func (e enum[V, N]) decode(n N) V { return e.values[n] }
