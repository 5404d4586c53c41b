package decide

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// quantity is a reading with three decimals; absent when missing.
func quantity(v observe.Value) *resource.Quantity {
	if !v.Valid {
		return nil
	}
	return decimal(v.Float64, resource.Milli)
}

// fine is a number of the filter, with nine decimals where they fit.
func fine(f float64) resource.Quantity {
	if math.Abs(f) < 1e9 {
		return *decimal(f, resource.Nano)
	}
	return *decimal(f, resource.Milli)
}

// decimal is f rounded to the scale and saturated (D42).
func decimal(f float64, scale resource.Scale) *resource.Quantity {
	scaled := math.Round(f * math.Pow10(-int(scale)))
	switch {
	case math.IsNaN(scaled):
		scaled = 0
	case scaled >= math.MaxInt64:
		return resource.NewScaledQuantity(math.MaxInt64, scale)
	case scaled <= math.MinInt64:
		return resource.NewScaledQuantity(math.MinInt64+1, scale)
	}
	return resource.NewScaledQuantity(int64(scaled), scale)
}

func count(v observe.Value) *int64 {
	if !v.Valid {
		return nil
	}
	whole := int64(math.MaxInt64)
	if v.Float64 < math.MaxInt64 {
		whole = int64(math.Round(v.Float64))
	}
	return &whole
}

func number(q *resource.Quantity) float64 {
	if q == nil {
		return 0
	}
	return q.AsApproximateFloat64()
}

func value(q *resource.Quantity) observe.Value {
	if q == nil {
		return observe.Value{}
	}
	return observe.Known(number(q))
}

func countValue(n *int64) observe.Value {
	if n == nil {
		return observe.Value{}
	}
	return observe.Known(float64(*n))
}

// latency of a stored status: where it came from is not stored.
func latency(q *resource.Quantity) observe.Latency {
	if q == nil {
		return observe.Latency{}
	}
	return observe.Latency{Milliseconds: number(q), Source: observe.FromBucket}
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

func timestamp(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	at := stamp(t)
	return &at
}
