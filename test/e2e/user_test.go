package e2e

import (
	"fmt"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"gpustack.ai/model-deployment-scaler/internal/target"
)

// user is a person with the cluster's own role edit in the test's namespace, and the right to edit deployments, which their
// operator would bring.
type user struct {
	s      *stage
	client dynamic.Interface
}

func (s *stage) user(name string) user {
	s.t.Helper()
	require.NoError(s.t, s.Apply(s.t.Context(), s.namespace, fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: modeldeployments}
rules:
  - {apiGroups: [worker.gpustack.ai], resources: [modeldeployments], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: modeldeployments}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: modeldeployments}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[1]s}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: edit}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[1]s}]
`, name)))
	client, err := s.User(name)
	require.NoError(s.t, err)
	u := user{s, client}
	s.eventually("the rights of "+name+" are in force", func() bool {
		_, deployments := u.targets("v1").List(s.t.Context(), metav1.ListOptions{})
		_, scalers := client.Resource(scalers).Namespace(s.namespace).List(s.t.Context(), metav1.ListOptions{})
		return deployments == nil && scalers == nil
	})
	return u
}

var scalers = schema.GroupVersionResource{Group: target.GroupName, Version: "v1", Resource: "modeldeploymentscalers"}

func (u user) targets(version string) dynamic.ResourceInterface {
	return u.client.Resource(schema.GroupVersionResource{Group: target.GroupName, Version: version, Resource: target.Resource}).Namespace(u.s.namespace)
}

// patch is a JSON Patch.
func (u user) patch(version, name, patch string) error {
	_, err := u.targets(version).Patch(u.s.t.Context(), name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// update replaces the object, as kubectl edit does; another's write in between is met by trying again.
func (u user) update(version, name string, change func(*unstructured.Unstructured)) error {
	for {
		object, err := u.targets(version).Get(u.s.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(object)
		if _, err = u.targets(version).Update(u.s.t.Context(), object, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			return err
		}
	}
}

// apply is a server-side apply with force, as a GitOps controller does.
func (u user) apply(version, name string, content map[string]any) error {
	object := &unstructured.Unstructured{Object: content}
	object.SetAPIVersion(target.GroupName + "/" + version)
	object.SetKind(target.Kind)
	object.SetName(name)
	_, err := u.targets(version).Apply(u.s.t.Context(), name, object, metav1.ApplyOptions{FieldManager: "gitops", Force: true})
	return err
}
