package e2e

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// limits are what every version of a target keeps.
type limits struct {
	roles    []workerv1.RoleBounds
	ratios   []workerv1.Ratio
	up, down int32 // most that ordinary growth and shrinking move a role by in one write
}

// limits of a scaler, with the steps that its policy comes to.
func (s *stage) limits(scaler string, up, down int32) limits {
	s.t.Helper()
	spec := s.scaler(scaler).Spec
	return limits{spec.Roles, spec.Ratios, up, down}
}

// orderly is keeps for one role.
func (r *record) orderly(least, most, step int32) []fence.DecisionID {
	r.s.t.Helper()
	return r.keeps(limits{roles: []workerv1.RoleBounds{{Name: "server", MinReplicas: least, MaxReplicas: most}}, up: step, down: step})
}

// keeps ends the record and requires that every version kept bounds and ratio bands, that counts moved with a decision that says
// so and as its kind allows, and that terms and decisions went forward. It returns the decisions.
func (r *record) keeps(l limits) (decisions []fence.DecisionID) {
	t := r.s.t
	t.Helper()
	r.stop()
	require.Greater(t, len(r.versions), 1, "nothing was recorded")
	term, epochs, before, moves := int64(0), map[string]bool{}, vector(r.versions[0]), moves{limits: l}
	for _, version := range r.versions {
		now := vector(version)
		l.legal(t, now)
		if binding := version.Annotations[fence.BindingAnnotation]; binding != "" {
			b, err := fence.ParseBinding(binding)
			require.NoError(t, err)
			require.GreaterOrEqual(t, b.Term, term, "terms go forward")
			term = b.Term
		}
		if maps.Equal(now, before) {
			continue
		}
		id := r.decision(version, term)
		moves.check(t, id.Kind, before, now)
		if n := len(decisions); n > 0 {
			require.Greater(t, id.Sequence, decisions[n-1].Sequence, "decisions go forward")
			require.True(t, id.Epoch == decisions[n-1].Epoch || !epochs[id.Epoch], "a leader that was replaced wrote again: %s", id)
		}
		epochs[id.Epoch] = true
		decisions, before = append(decisions, id), now
	}
	return decisions
}

// decision of a version: it was written with the counts, under the term of the binding.
func (r *record) decision(d target.Deployment, term int64) fence.DecisionID {
	t := r.s.t
	t.Helper()
	decision, err := fence.ParseDecision(d.Annotations[fence.DecisionAnnotation])
	require.NoError(t, err)
	require.Equal(t, vector(d), workerv1.Vector(decision.Vector))
	require.Equal(t, term, decision.Term)
	id, err := fence.ParseDecisionID(decision.DecisionID)
	require.NoError(t, err)
	return id
}

func vector(d target.Deployment) workerv1.Vector {
	v := workerv1.Vector{}
	for _, role := range d.Roles {
		v[role.Name] = role.Replicas
	}
	return v
}

// legal requires that a vector is within bounds and ratio bands.
func (l limits) legal(t *testing.T, v workerv1.Vector) {
	t.Helper()
	require.Len(t, v, len(l.roles))
	for _, b := range l.roles {
		require.GreaterOrEqual(t, v[b.Name], b.MinReplicas, "%s of %v", b.Name, v)
		require.LessOrEqual(t, v[b.Name], b.MaxReplicas, "%s of %v", b.Name, v)
	}
	for _, r := range l.ratios {
		const slack = 1e-8 // quantities are decimals
		ratio := float64(v[r.NumeratorRole]) / float64(v[r.DenominatorRole])
		if r.Min != nil {
			require.GreaterOrEqual(t, ratio*(1+slack), r.Min.AsApproximateFloat64(), "%s to %s of %v", r.NumeratorRole, r.DenominatorRole, v)
		}
		if r.Max != nil {
			require.LessOrEqual(t, ratio*(1-slack), r.Max.AsApproximateFloat64(), "%s to %s of %v", r.NumeratorRole, r.DenominatorRole, v)
		}
	}
}

// moves know what a later write may undo.
type moves struct {
	limits
	growth, removal workerv1.Vector // counts before the last growth, and before the last removal
}

// check requires that counts moved as the kind of the decision allows.
func (m *moves) check(t *testing.T, kind fence.CommitKind, from, to workerv1.Vector) {
	t.Helper()
	switch kind {
	case fence.CommitUp, fence.CommitAcquire:
		m.growth = from
	case fence.CommitDown, fence.CommitDonate:
		m.removal = from
	}
	moved := int32(0)
	for name, count := range from {
		least, most := m.allowed(kind, name, count)
		require.True(t, least <= to[name] && to[name] <= most, "%s leads role %s from %d to %d", kind, name, count, to[name])
		moved += max(to[name]-count, count-to[name])
	}
	if kind == fence.CommitAcquire || kind == fence.CommitDonate {
		require.Equal(t, int32(1), moved, "one replica of one role moves in each leg of a transfer")
	}
}

// allowed counts of a role after a decision: ordinary moves go a step in one direction, and what undoes a move goes back to
// where that began, in one write.
func (m *moves) allowed(kind fence.CommitKind, role string, count int32) (least, most int32) {
	switch kind {
	case fence.CommitUp:
		return count, count + m.up
	case fence.CommitAcquire:
		return count, count + 1
	case fence.CommitDown:
		return count - m.down, count
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

// kinds of decisions, in order.
func kinds(decisions []fence.DecisionID) (list []fence.CommitKind) {
	for _, d := range decisions {
		list = append(list, d.Kind)
	}
	return list
}
