package kube

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

// cachedScaler is a scaler as the cache keeps it: the histories of its status, which a new leader alone reads, are packed to
// a tenth of their size.
type cachedScaler struct {
	workerv1.ModelDeploymentScaler
	packed []byte
}

// keepScaler packs what a cache has of a scaler, and drops what nobody reads.
func keepScaler(s *workerv1.ModelDeploymentScaler) any {
	kept := &cachedScaler{ModelDeploymentScaler: *s, packed: pack(s.Status)}
	kept.ManagedFields = nil
	kept.Status = WithoutHistories(s.Status)
	return kept
}

// whole is a copy with the histories, down to the second and the ninth decimal as a status has them.
func (c *cachedScaler) whole() (*workerv1.ModelDeploymentScaler, error) {
	s := c.ModelDeploymentScaler
	s.Status = WithoutHistories(s.Status)
	if err := unpack(c.packed, &s.Status); err != nil {
		return nil, fmt.Errorf("reading the histories of scaler %s/%s: %w", s.Namespace, s.Name, err)
	}
	return &s, nil
}

// WithoutHistories is a status without what it remembers of earlier passes: the recommendations of its roles and their demand.
func WithoutHistories(status workerv1.ModelDeploymentScalerStatus) workerv1.ModelDeploymentScalerStatus {
	status.Roles, status.Predictors = slices.Clone(status.Roles), slices.Clone(status.Predictors)
	for i := range status.Roles {
		status.Roles[i].StabilizationHistory = nil
	}
	for i := range status.Predictors {
		status.Predictors[i].History = nil
	}
	return status
}

// pack writes the histories of a status, in its order, as numbers of varying length: lengths, times as the difference to the
// one before, counts, demands.
func pack(status workerv1.ModelDeploymentScalerStatus) []byte {
	var b []byte
	for i := range status.Roles {
		history, before := status.Roles[i].StabilizationHistory, int64(0)
		b = binary.AppendUvarint(b, uint64(len(history)))
		for _, e := range history {
			b = binary.AppendVarint(b, e.Timestamp.Unix()-before)
			b = binary.AppendVarint(b, int64(e.Replicas))
			before = e.Timestamp.Unix()
		}
	}
	for i := range status.Predictors {
		history, before := status.Predictors[i].History, int64(0)
		b = binary.AppendUvarint(b, uint64(len(history)))
		for j := range history {
			d := &history[j]
			b = binary.AppendVarint(b, d.Timestamp.Unix()-before)
			b = binary.AppendUvarint(b, flagsOf(d))
			b = binary.AppendVarint(b, d.TokensPerSecond.ScaledValue(scaleOf(d)))
			before = d.Timestamp.Unix()
		}
	}
	return slices.Clip(b)
}

// largestNano is the largest number that has nine decimals in 64 bits.
const largestNano = math.MaxInt64 / 1e9

func scaleOf(d *workerv1.Demand) resource.Scale {
	if math.Abs(d.TokensPerSecond.AsApproximateFloat64()) < largestNano {
		return resource.Nano
	}
	return resource.Milli
}

const (
	flagPartial = 1 << iota
	flagMilli
)

func flagsOf(d *workerv1.Demand) (flags uint64) {
	if d.Partial {
		flags |= flagPartial
	}
	if scaleOf(d) == resource.Milli {
		flags |= flagMilli
	}
	return flags
}

// unpack puts histories that were packed back into the status that they were taken from.
func unpack(packed []byte, status *workerv1.ModelDeploymentScalerStatus) error {
	r := &unpacker{left: packed}
	for i := range status.Roles {
		at := int64(0)
		for range r.length() {
			at += r.number()
			status.Roles[i].StabilizationHistory = append(status.Roles[i].StabilizationHistory,
				workerv1.Recommendation{Timestamp: seconds(at), Replicas: int32(r.number())})
		}
	}
	for i := range status.Predictors {
		at := int64(0)
		for range r.length() {
			at += r.number()
			flags, scale := r.length(), resource.Nano
			if flags&flagMilli != 0 {
				scale = resource.Milli
			}
			status.Predictors[i].History = append(status.Predictors[i].History, workerv1.Demand{Timestamp: seconds(at),
				TokensPerSecond: *resource.NewScaledQuantity(r.number(), scale), Partial: flags&flagPartial != 0})
		}
	}
	if r.short || len(r.left) > 0 {
		return errors.New("they were packed for another status")
	}
	return nil
}

func seconds(s int64) metav1.Time { return metav1.NewTime(time.Unix(s, 0)) }

// unpacker reads numbers; once they are used up it gives zeros.
type unpacker struct {
	left  []byte
	short bool
}

func (r *unpacker) length() uint64 {
	v, n := binary.Uvarint(r.left)
	return taken(r, v, n)
}

func (r *unpacker) number() int64 {
	v, n := binary.Varint(r.left)
	return taken(r, v, n)
}

func taken[T any](r *unpacker, v T, n int) T {
	if n <= 0 {
		var none T
		r.short, r.left = true, nil
		return none
	}
	r.left = r.left[n:]
	return v
}
