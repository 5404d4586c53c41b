package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestMalformedScalersAreRefusedWithSentences(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.deploy("chat", "vLLM", 1, quiet)
	jane := s.user("jane")
	const sound = `
  targetRef: {name: chat}
  roles: [{name: server, maxReplicas: 4}]
  algorithm: {proportional: {metric: QueueDepth, roleTargets: [{name: server, target: "8"}]}}`
	tests := []struct {
		name, spec, says string
	}{
		{"bounds upside down", `
  targetRef: {name: chat}
  roles: [{name: server, minReplicas: 5, maxReplicas: 4}]
  algorithm: {proportional: {metric: QueueDepth, roleTargets: [{name: server, target: "8"}]}}`, "minReplicas"},
		{"a metric that does not exist", `
  targetRef: {name: chat}
  roles: [{name: server, maxReplicas: 4}]
  algorithm: {proportional: {metric: Temperature, roleTargets: [{name: server, target: "8"}]}}`, `"QueueDepth"`},
		{"a target for a role without bounds", `
  targetRef: {name: chat}
  roles: [{name: server, maxReplicas: 4}]
  algorithm: {proportional: {metric: QueueDepth, roleTargets: [{name: server, target: "8"}, {name: decode, target: "8"}]}}`, "needs an entry in roles"},
		{"a priority for a role without bounds", sound + `
  rebalance: {policy: Priority, priority: [decode]}`, "needs an entry in roles"},
		{"two algorithms", `
  targetRef: {name: chat}
  roles: [{name: server, maxReplicas: 4}]
  algorithm:
    proportional: {metric: QueueDepth, roleTargets: [{name: server, target: "8"}]}
    tokenThroughput: {serverTargetTokensPerSecond: "100"}`, "remove tokenThroughput"},
		{"no algorithm", `
  targetRef: {name: chat}
  roles: [{name: server, maxReplicas: 4}]`, "tokenThroughput"},
		{"an interval that is too short", sound + `
  sampling: {intervalSeconds: 1}`, "sampling.intervalSeconds"},
		{"a target of nothing per replica", `
  targetRef: {name: chat}
  roles: [{name: server, maxReplicas: 4}]
  algorithm: {proportional: {metric: QueueDepth, roleTargets: [{name: server, target: "0"}]}}`, "target"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := jane.create(t, tt.spec)
			require.ErrorContains(t, err, tt.says)
		})
	}
	require.NoError(t, jane.create(t, sound), "the sound one is accepted")
}

// create a scaler with a spec.
func (u user) create(t *testing.T, spec string) error {
	t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte("apiVersion: worker.gpustack.ai/v1\nkind: ModelDeploymentScaler\nmetadata: {name: chat}\nspec:"+spec), &object.Object))
	_, err := u.client.Resource(scalers).Namespace(u.s.namespace).Create(t.Context(), object, metav1.CreateOptions{})
	if err == nil {
		return nil
	}
	t.Log(err)
	return err
}
