package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamespaceDeletionFinishes(t *testing.T) {
	shared.kubectl(t, "", "create", "namespace", "passing")
	shared.kubectl(t, "", "create", "configmap", "inside", "-n", "passing")
	shared.kubectl(t, "", "delete", "namespace", "passing", "--timeout=300s")
	_, err := shared.kubectlCommand("", "get", "namespace", "passing").CombinedOutput()
	require.Error(t, err)
}

func TestGarbageCollectionFollowsOwners(t *testing.T) {
	shared.kubectl(t, "", "create", "configmap", "owner")
	uid := shared.kubectl(t, "", "get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}")
	shared.kubectl(t, fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata:
  name: owned
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: %s}]
`, uid), "create", "-f", "-")
	shared.kubectl(t, "", "delete", "configmap", "owner")
	shared.kubectl(t, "", "wait", "--for=delete", "configmap/owned", "--timeout=300s")
}

func TestPodsTakeAddressesOfTheBlock(t *testing.T) {
	const pod = `
apiVersion: v1
kind: Pod
metadata: {name: played}
spec:
  nodeName: played
  containers: [{name: main, image: none}]
`
	shared.kubectl(t, pod, "create", "-f", "-")
	address := shared.Block + ".128.7"
	shared.kubectl(t, "", "patch", "pod", "played", "--subresource=status", "--type=merge", "-p",
		fmt.Sprintf(`{"status":{"phase":"Running","podIP":%q,"podIPs":[{"ip":%[1]q}]}}`, address))
	require.Equal(t, address, shared.kubectl(t, "", "get", "pod", "played", "-o", "jsonpath={.status.podIP}"))
	shared.kubectl(t, "", "delete", "pod", "played", "--grace-period=0", "--force")
}

func TestAdmissionPoliciesDecide(t *testing.T) {
	shared.kubectl(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: short-values}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}
  validations:
  - {expression: "!has(object.data) || object.data.all(k, size(object.data[k]) < 5)", message: too long for us}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: short-values}
spec:
  policyName: short-values
  validationActions: [Deny]
  matchResources:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: policed}}
---
apiVersion: v1
kind: Namespace
metadata: {name: policed}
`, "apply", "-f", "-")
	require.Eventually(t, func() bool {
		output, err := shared.kubectlCommand("", "create", "configmap", "long", "-n", "policed",
			"--from-literal=text=longer", "--dry-run=server").CombinedOutput()
		return err != nil && strings.Contains(string(output), "too long for us")
	}, patience, tick)
	shared.kubectl(t, "", "create", "configmap", "short", "-n", "policed", "--from-literal=text=four", "--dry-run=server")
}
