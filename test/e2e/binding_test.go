package e2e

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/kube"
)

func TestShadowRecommendsAndWritesNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.deploy("chat", "vLLM", 1, busy)
	before := s.deployment("chat")
	s.scale(policy{name: "chat", target: "chat", mode: workerv1.ModeShadow, min: 1, max: 5})
	s.reports("chat", workerv1.ConditionActive, metav1.ConditionFalse, workerv1.ReasonShadowMode)
	s.reports("chat", workerv1.ConditionBound, metav1.ConditionTrue, workerv1.ReasonBound)
	recommends := func(what string, holds func(replicas float64) bool) {
		s.eventually("it recommends "+what, func() bool {
			return holds(s.all("decider", "mds_decider_constrained_replicas", map[string]string{"namespace": s.namespace}))
		})
	}
	recommends("4 or more", func(replicas float64) bool { return replicas >= 4 })
	s.eventually("its status does", func() bool {
		roles := s.scaler("chat").Status.Roles
		return len(roles) == 1 && roles[0].RawRecommendedReplicas >= 4 && roles[0].ConstrainedReplicas >= 4
	})
	s.Fleet.SetTraffic(s.namespace, "chat", quiet)
	recommends("1 again, in a later pass", func(replicas float64) bool { return replicas == 1 })

	require.Nil(t, s.scaler("chat").Status.LastCommit)
	u, err := s.Targets(s.namespace).Get(t.Context(), "chat", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, before.Generation, u.GetGeneration())
	require.Empty(t, u.GetAnnotations())
	require.False(t, slices.ContainsFunc(u.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool { return m.Manager == kube.FieldManager }))
}

// Not parallel: other tests kill leaders, and one that is killed right after a write has told nobody of it.
func TestSuspendReleasesTheBinding(t *testing.T) {
	s := newStage(t)
	s.deploy("chat", "vLLM", 2, quiet)
	s.scale(policy{name: "chat", target: "chat", mode: workerv1.ModeActive, min: 2, max: 5})
	term := s.bound("chat", "chat")

	s.edit("chat", `{"spec":{"suspend":true}}`)
	s.reports("chat", workerv1.ConditionBound, metav1.ConditionFalse, workerv1.ReasonSuspended)
	s.reports("chat", workerv1.ConditionActive, metav1.ConditionFalse, workerv1.ReasonSuspended)
	require.NotContains(t, s.deployment("chat").Annotations, fence.BindingAnnotation)
	require.Equal(t, int32(2), s.replicas("chat"))
	s.event("chat", kube.EventReleased)

	jane := s.user("jane")
	require.NoError(t, jane.patch("v1", "chat", `[{"op":"replace","path":"/spec/roles/0/replicas","value":3}]`), "counts are everybody's again")

	s.edit("chat", `{"spec":{"suspend":false}}`)
	require.Greater(t, s.bound("chat", "chat"), term, "another binding has another term")
}

func TestDeletingTheScalerReleasesTheBinding(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.deploy("chat", "vLLM", 2, quiet)
	s.scale(policy{name: "chat", target: "chat", mode: workerv1.ModeActive, min: 2, max: 5})
	s.bound("chat", "chat")
	s.eventually("both replicas serve", func() bool { return s.ready("chat") == 2 })

	require.NoError(t, s.Scalers(s.namespace).Delete(t.Context(), "chat", metav1.DeleteOptions{}))
	s.eventually("the scaler goes", func() bool {
		_, err := s.Scalers(s.namespace).Get(t.Context(), "chat", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	require.NotContains(t, s.deployment("chat").Annotations, fence.BindingAnnotation)
	require.Equal(t, int32(2), s.replicas("chat"))
	require.Equal(t, 2, s.ready("chat"), "the target serves on")
	require.Zero(t, s.Fleet.Totals(s.namespace, "chat").Lost)
}

func TestOneOfTwoScalersBinds(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.deploy("chat", "vLLM", 2, quiet)
	s.scale(policy{name: "first", target: "chat", mode: workerv1.ModeActive, min: 2, max: 5})
	term := s.bound("first", "chat")

	s.scale(policy{name: "second", target: "chat", mode: workerv1.ModeActive, min: 2, max: 5})
	s.reports("second", workerv1.ConditionBound, metav1.ConditionFalse, workerv1.ReasonAlreadyBound, "first")
	s.reports("second", workerv1.ConditionActive, metav1.ConditionFalse, workerv1.ReasonAlreadyBound)
	require.Equal(t, term, s.bound("first", "chat"), "the owner stays")

	require.NoError(t, s.Scalers(s.namespace).Delete(t.Context(), "first", metav1.DeleteOptions{}))
	require.GreaterOrEqual(t, s.bound("second", "chat"), term, "the next owner binds, and the term never falls")
}
