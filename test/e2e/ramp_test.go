package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/kube"
)

func TestCountsFollowARampUpAndDown(t *testing.T) {
	for _, engine := range []string{"vLLM", "SGLang"} {
		t.Run("of "+engine, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.deploy("chat", engine, 1, quiet)
			s.scale(policy{name: "chat", target: "chat", mode: workerv1.ModeActive, min: 1, max: 5})
			s.bound("chat", "chat")
			s.reports("chat", workerv1.ConditionMetricsReady, metav1.ConditionTrue, workerv1.ReasonObserved)
			require.Equal(t, int32(1), s.replicas("chat"))
			record := s.record("chat")

			s.Fleet.SetTraffic(s.namespace, "chat", busy)
			s.eventually("it grows to 4, which are ready", func() bool {
				roles := s.scaler("chat").Status.Roles
				return len(roles) == 1 && roles[0].CurrentReplicas >= 4 && roles[0].ReadyReplicas >= 4
			})
			s.event("chat", kube.EventScaledUp)

			s.Fleet.SetTraffic(s.namespace, "chat", quiet)
			s.eventually("it comes back to 1", func() bool { return s.replicas("chat") == 1 })
			s.event("chat", kube.EventScaledDown)
			s.eventually("the last commit is on record", func() bool {
				commit := s.scaler("chat").Status.LastCommit
				return commit != nil && commit.Vector["server"] == 1
			})

			decisions := record.orderly(1, 5, 4)
			require.Equal(t, fence.CommitUp, decisions[0].Kind)
			require.Equal(t, fence.CommitDown, decisions[len(decisions)-1].Kind)
			s.eventually("retired engines are gone", func() bool { return len(s.Fleet.Instances(s.namespace, "chat")) == 1 })
			require.Zero(t, s.Fleet.Totals(s.namespace, "chat").Lost, "no request was lost")
		})
	}
}
