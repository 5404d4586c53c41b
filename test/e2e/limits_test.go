package e2e

import (
	"github.com/stretchr/testify/require"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/dev/invariants"
	"gpustack.ai/model-deployment-scaler/internal/fence"
)

// limits of a scaler, with the steps that its policy comes to.
func (s *stage) limits(scaler string, up, down int32) invariants.Limits {
	s.t.Helper()
	spec := s.scaler(scaler).Spec
	return invariants.Limits{Roles: spec.Roles, Ratios: spec.Ratios, Up: up, Down: down}
}

// orderly is keeps for one role.
func (r *record) orderly(least, most, step int32) []invariants.Commit {
	r.s.t.Helper()
	return r.keeps(invariants.Limits{Roles: []workerv1.RoleBounds{{Name: "server", MinReplicas: least, MaxReplicas: most}}, Up: step, Down: step})
}

// keeps ends the record and requires that every version kept what must always be true. It returns the commits.
func (r *record) keeps(l invariants.Limits) []invariants.Commit {
	r.s.t.Helper()
	r.whole()
	r.stop()
	require.Greater(r.s.t, len(r.versions), 1, "nothing was recorded")
	commits, err := invariants.Orderly(r.versions, l)
	require.NoError(r.s.t, err)
	return commits
}

// kinds of commits, in order.
func kinds(commits []invariants.Commit) (list []fence.CommitKind) {
	for _, c := range commits {
		list = append(list, c.Kind)
	}
	return list
}
