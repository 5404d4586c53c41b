package kube

import (
	"encoding/json"
	"fmt"
	"strings"

	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// Change is one write to a target: a binding, a decision with its counts, both, or the release of the binding.
type Change struct {
	Bind     *fence.Binding
	Decision *fence.Decision
	Release  bool
}

// operation of a JSON Patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patch is the whole change as one JSON Patch on the version that was planned on (D34). A wrong version answers 409, a role
// that is not where it was 422. "add" on a member that exists replaces it, so counts that were left to their default need
// no case of their own.
func patch(d target.Deployment, c Change) ([]byte, error) {
	operations := []operation{{"replace", "/metadata/resourceVersion", d.ResourceVersion}}
	operations = append(operations, annotate(d, c)...)
	if c.Decision != nil {
		counts, err := count(d, c.Decision.Vector)
		if err != nil {
			return nil, err
		}
		operations = append(operations, counts...)
	}
	return json.Marshal(operations)
}

// annotate writes the two annotations; the map itself when there is none yet.
func annotate(d target.Deployment, c Change) []operation {
	if c.Release {
		return []operation{{Op: "remove", Path: annotationPath(fence.BindingAnnotation)}}
	}
	values := make(map[string]string, 2)
	var operations []operation
	if c.Bind != nil {
		values[fence.BindingAnnotation] = c.Bind.String()
		operations = append(operations, operation{"add", annotationPath(fence.BindingAnnotation), c.Bind.String()})
	}
	if c.Decision != nil {
		values[fence.DecisionAnnotation] = c.Decision.String()
		operations = append(operations, operation{"add", annotationPath(fence.DecisionAnnotation), c.Decision.String()})
	}
	if len(d.Annotations) == 0 {
		return []operation{{"add", "/metadata/annotations", values}}
	}
	return operations
}

// count tests every role's place and sets the counts that change.
func count(d target.Deployment, vector map[string]int32) ([]operation, error) {
	var tests, sets []operation
	for i, role := range d.Roles {
		replicas, found := vector[role.Name]
		if !found {
			return nil, fmt.Errorf("writing counts of %s %s/%s: the decision has none for role %s", target.Kind, d.Namespace, d.Name, role.Name)
		}
		path := fmt.Sprintf("/spec/roles/%d", i)
		tests = append(tests, operation{"test", path + "/name", role.Name})
		if replicas != role.Replicas {
			sets = append(sets, operation{"add", path + "/replicas", replicas})
		}
	}
	if len(vector) != len(d.Roles) {
		return nil, fmt.Errorf("writing counts of %s %s/%s: the decision names a role that it does not have", target.Kind, d.Namespace, d.Name)
	}
	return append(tests, sets...), nil
}

// annotationPath escapes a key as JSON pointers want it (RFC 6901).
func annotationPath(key string) string {
	return "/metadata/annotations/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}

// after is the target as the change leaves it, for the fence.
func after(d target.Deployment, c Change) fence.Object {
	object := objectOf(d)
	annotations := make(map[string]string, len(d.Annotations)+2)
	for key, value := range d.Annotations {
		annotations[key] = value
	}
	if c.Release {
		delete(annotations, fence.BindingAnnotation)
	}
	if c.Bind != nil {
		annotations[fence.BindingAnnotation] = c.Bind.String()
	}
	if c.Decision != nil {
		annotations[fence.DecisionAnnotation] = c.Decision.String()
		object.Counts = c.Decision.Vector
	}
	object.Annotations = annotations
	return object
}

func objectOf(d target.Deployment) fence.Object {
	return fence.Object{UID: d.UID, Counts: d.Counts(), Annotations: d.Annotations}
}
