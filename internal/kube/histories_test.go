package kube

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

func drawStatus(t *rapid.T) workerv1.ModelDeploymentScalerStatus {
	status := workerv1.ModelDeploymentScalerStatus{ObservedGeneration: 3}
	at := func() metav1.Time {
		return metav1.NewTime(time.Unix(rapid.Int64Range(-1<<33, 1<<36).Draw(t, "time"), 0))
	}
	quantities := rapid.SampledFrom([]string{"0", "1500.123456789", "5m", "-3", "9223372035", "9223372037", "123456789012.345", "1e12"})
	for range rapid.IntRange(0, 3).Draw(t, "roles") {
		role := workerv1.RoleStatus{Name: "role", CurrentReplicas: 2}
		for range rapid.IntRange(0, 5).Draw(t, "recommendations") {
			role.StabilizationHistory = append(role.StabilizationHistory, workerv1.Recommendation{Timestamp: at(), Replicas: rapid.Int32().Draw(t, "replicas")})
		}
		status.Roles = append(status.Roles, role)
	}
	for range rapid.IntRange(0, 3).Draw(t, "predictors") {
		predictor := workerv1.PredictorStatus{Name: "role", SampleCount: 9}
		for range rapid.IntRange(0, 5).Draw(t, "demands") {
			predictor.History = append(predictor.History, workerv1.Demand{Timestamp: at(),
				TokensPerSecond: resource.MustParse(quantities.Draw(t, "demand")), Partial: rapid.Bool().Draw(t, "partial")})
		}
		status.Predictors = append(status.Predictors, predictor)
	}
	return status
}

func TestACachedScalerGivesItsWholeStatusBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		made := &workerv1.ModelDeploymentScaler{Status: drawStatus(t)}
		cached := keepScaler(made.DeepCopy()).(*cachedScaler)
		for _, role := range cached.Status.Roles {
			require.Empty(t, role.StabilizationHistory)
		}
		for _, predictor := range cached.Status.Predictors {
			require.Empty(t, predictor.History)
		}
		whole, err := cached.whole()
		require.NoError(t, err)
		require.True(t, equality.Semantic.DeepEqual(made.Status, whole.Status), "%v\n%v", made.Status, whole.Status)
		again, err := cached.whole()
		require.NoError(t, err)
		require.Equal(t, whole, again, "nothing of the cached one was changed")
	})
}

func TestPackedHistoriesAreATenthOfTheirSize(t *testing.T) {
	var role workerv1.RoleStatus
	for i := range 120 {
		role.StabilizationHistory = append(role.StabilizationHistory, workerv1.Recommendation{Timestamp: seconds(1_900_000_000 + 15*int64(i)), Replicas: 4})
	}
	require.Less(t, len(pack(workerv1.ModelDeploymentScalerStatus{Roles: []workerv1.RoleStatus{role}})), 120*32/10)
}

func TestHistoriesOfAnotherStatusAreRefused(t *testing.T) {
	status := workerv1.ModelDeploymentScalerStatus{Roles: []workerv1.RoleStatus{{Name: "a"}}}
	require.NoError(t, unpack(pack(status), &status))
	require.ErrorContains(t, unpack(nil, &status), "another status")
	require.ErrorContains(t, unpack(pack(status), &workerv1.ModelDeploymentScalerStatus{}), "another status")
}
