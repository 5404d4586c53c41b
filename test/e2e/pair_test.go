package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/sim"
)

const pair = `
apiVersion: worker.gpustack.ai/v1
kind: ModelDeployment
metadata: {name: pair}
spec:
  model: {name: Qwen/Qwen3-32B}
  engine: {name: SGLang}
  roles:
    - {name: prefill, kind: Prefill, replicas: 1, instanceType: a100}
    - {name: decode, kind: Decode, replicas: 2, size: 2, instanceType: a100}
---
apiVersion: worker.gpustack.ai/v1
kind: ModelDeploymentScaler
metadata: {name: pair}
spec:
  targetRef: {name: pair}
  mode: Active
  sampling: {intervalSeconds: 5}
  roles:
    - {name: prefill, minReplicas: 1, maxReplicas: 3}
    - {name: decode, minReplicas: 2, maxReplicas: 6}
  ratios: [{numeratorRole: decode, denominatorRole: prefill, min: "2", target: "2", max: "2"}]
  algorithm:
    proportional: {metric: QueueDepth, roleTargets: [{name: decode, target: "8"}]}
  behavior:
    scaleDown: {stabilizationWindowSeconds: 10, decodePostScaleUpGraceSeconds: 5, stepPolicy: {type: Pods, value: 2}}
`

// Prefill has no target of its own: it follows decode, whose instances are two Pods each.
func TestAPairMovesTogether(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Fleet.SetTraffic(s.namespace, "pair", quiet)
	require.NoError(t, s.Apply(t.Context(), s.namespace, pair))
	s.bound("pair", "pair")
	s.reports("pair", workerv1.ConditionMetricsReady, metav1.ConditionTrue, workerv1.ReasonObserved)
	record := s.record("pair")

	s.Fleet.SetTraffic(s.namespace, "pair", sim.Constant(14, 200, 120)) // 28 requests at a time: 4 replicas, and never 5
	s.eventually("both grow", func() bool { return s.counts("pair", 2, 4) && s.ready("pair") == 6 })
	s.Fleet.SetTraffic(s.namespace, "pair", quiet)
	s.eventually("both come back", func() bool { return s.counts("pair", 1, 2) })
	record.keeps(s.limits("pair", 4, 2)) // one write moves both, so the ratio holds in every version
}
