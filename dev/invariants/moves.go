package invariants

import (
	"errors"
	"fmt"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
)

// legal checks that a vector is within bounds and ratio bands.
func (l Limits) legal(v workerv1.Vector) (err error) {
	if len(v) != len(l.Roles) {
		err = fmt.Errorf("%v is not of %d roles", v, len(l.Roles))
	}
	for _, b := range l.Roles {
		if v[b.Name] < b.MinReplicas || v[b.Name] > b.MaxReplicas {
			err = errors.Join(err, fmt.Errorf("%s of %v is not within %d and %d", b.Name, v, b.MinReplicas, b.MaxReplicas))
		}
	}
	const slack = 1e-8 // quantities are decimals
	for _, r := range l.Ratios {
		ratio := float64(v[r.NumeratorRole]) / float64(v[r.DenominatorRole])
		if r.Min != nil && ratio*(1+slack) < r.Min.AsApproximateFloat64() || r.Max != nil && ratio*(1-slack) > r.Max.AsApproximateFloat64() {
			err = errors.Join(err, fmt.Errorf("%s to %s of %v is not within the band %v to %v", r.NumeratorRole, r.DenominatorRole, v, r.Min, r.Max))
		}
	}
	return err
}

// moves know what a later write may undo.
type moves struct {
	Limits
	growth, removal workerv1.Vector // counts before the last growth, and before the last removal
}

// check that counts moved as the kind of the decision allows.
func (m *moves) check(kind fence.CommitKind, from, to workerv1.Vector) (err error) {
	switch kind {
	case fence.CommitUp, fence.CommitAcquire:
		m.growth = from
	case fence.CommitDown, fence.CommitDonate:
		m.removal = from
	}
	moved := int32(0)
	for name, count := range from {
		least, most := m.allowed(kind, name, count)
		if to[name] < least || to[name] > most {
			err = errors.Join(err, fmt.Errorf("%s leads role %s from %d to %d", kind, name, count, to[name]))
		}
		moved += max(to[name]-count, count-to[name])
	}
	if moved != 1 && (kind == fence.CommitAcquire || kind == fence.CommitDonate) {
		err = errors.Join(err, fmt.Errorf("%s moves %d replicas, and each leg of a transfer moves one", kind, moved))
	}
	return err
}

// allowed counts of a role after a decision: ordinary moves go a step in one direction, and what undoes a move goes back to
// where that began, in one write.
func (m *moves) allowed(kind fence.CommitKind, role string, count int32) (least, most int32) {
	switch kind {
	case fence.CommitUp:
		return count, count + m.Up
	case fence.CommitAcquire:
		return count, count + 1
	case fence.CommitDown:
		return count - m.Down, count
	case fence.CommitDonate:
		return count - 1, count
	case fence.CommitRollback:
		back := min(count, m.growth[role])
		return back, back
	default:
		back := max(count, m.removal[role])
		return back, back
	}
}
