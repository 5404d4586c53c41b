package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/kube"
)

func TestGrowthThatIsNotAdmittedIsTakenBackWhole(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Fleet.SetQuota("rare", 2)
	s.Fleet.SetTraffic(s.namespace, "chat", quiet)
	require.NoError(t, s.Apply(t.Context(), s.namespace, `
apiVersion: worker.gpustack.ai/v1
kind: ModelDeployment
metadata: {name: chat}
spec:
  model: {name: Qwen/Qwen3-8B}
  engine: {name: vLLM}
  roles: [{name: server, kind: Server, replicas: 1, instanceType: rare}]
`))
	s.scale(policy{name: "chat", target: "chat", mode: workerv1.ModeActive, min: 1, max: 5})
	s.bound("chat", "chat")
	s.reports("chat", workerv1.ConditionMetricsReady, metav1.ConditionTrue, workerv1.ReasonObserved)
	record := s.record("chat")

	s.Fleet.SetTraffic(s.namespace, "chat", busy)
	var before int32 // 1, or 2 when the ramp was seen in two steps, of which the first found room
	s.eventually("growth waits for quota", func() bool {
		cohort := s.scaler("chat").Status.PendingCohort
		if cohort == nil || cohort.TargetVector["server"] <= 2 {
			return false
		}
		before = cohort.BaselineVector["server"]
		return true
	})
	s.reports("chat", workerv1.ConditionBlocked, metav1.ConditionTrue, workerv1.ReasonResourceExhausted)
	s.eventually("it is taken back", func() bool { return s.replicas("chat") == before })
	decisions := record.orderly(1, 5, 4) // it is tried again in a minute
	s.event("chat", kube.EventRolledBack)
	s.eventually("and that is on record", func() bool { return s.scaler("chat").Status.Exhaustion != nil }) // written after the event
	require.Equal(t, fence.CommitUp, decisions[0].Kind)
	require.Equal(t, fence.CommitRollback, decisions[len(decisions)-1].Kind)
}
