package target

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// Parse reads a ModelDeployment of any served version. It fails on roles or annotations that it cannot read: neither counts
// nor an owner must ever be guessed. An absent count or size is 1, as the owner's schema defaults it.
func Parse(u *unstructured.Unstructured) (Deployment, error) {
	roles, err := parseRoles(u.Object)
	if err != nil {
		return Deployment{}, fmt.Errorf("reading %s %s/%s: %w", Kind, u.GetNamespace(), u.GetName(), err)
	}
	annotations, _, err := unstructured.NestedNullCoercingStringMap(u.Object, "metadata", "annotations")
	if err != nil { // which would print the whole object
		return Deployment{}, fmt.Errorf("reading %s %s/%s: metadata.annotations is not a map of strings", Kind, u.GetNamespace(), u.GetName())
	}
	engine, _, _ := unstructured.NestedString(u.Object, "spec", "engine", "name")
	return Deployment{
		Namespace:       u.GetNamespace(),
		Name:            u.GetName(),
		UID:             string(u.GetUID()),
		Generation:      u.GetGeneration(),
		ResourceVersion: u.GetResourceVersion(),
		Deleting:        u.GetDeletionTimestamp() != nil,
		Annotations:     annotations,
		Engine:          engine,
		Roles:           roles,
		Retirement:      parseRetirement(u.Object),
	}, nil
}

// Role returns the role of that name.
func (d Deployment) Role(name string) (Role, bool) {
	for _, r := range d.Roles {
		if r.Name == name {
			return r, true
		}
	}
	return Role{}, false
}

// Counts is the replica count of every role.
func (d Deployment) Counts() map[string]int32 {
	counts := make(map[string]int32, len(d.Roles))
	for _, r := range d.Roles {
		counts[r.Name] = r.Replicas
	}
	return counts
}

func parseRoles(object map[string]any) ([]Role, error) {
	list, found, err := unstructured.NestedFieldNoCopy(object, "spec", "roles")
	if err != nil || !found || list == nil {
		return nil, err
	}
	items, ok := list.([]any)
	if !ok {
		return nil, fmt.Errorf("spec.roles is a %T, not a list", list)
	}
	roles := make([]Role, 0, len(items))
	seen := make(map[string]bool, len(items))
	for i, item := range items {
		role, err := parseRole(item)
		if err != nil {
			return nil, fmt.Errorf("spec.roles[%d]: %w", i, err)
		}
		if seen[role.Name] {
			return nil, fmt.Errorf("spec.roles[%d]: the name %q occurs twice", i, role.Name)
		}
		seen[role.Name] = true
		roles = append(roles, role)
	}
	return roles, nil
}

func parseRole(item any) (Role, error) {
	fields, ok := item.(map[string]any)
	if !ok {
		return Role{}, fmt.Errorf("is a %T, not an object", item)
	}
	name, _ := fields["name"].(string)
	if name == "" {
		return Role{}, fmt.Errorf("has no name")
	}
	kind, err := roleKind(fields["kind"])
	if err != nil {
		return Role{}, err
	}
	replicas, err := count(fields, "replicas")
	if err != nil {
		return Role{}, err
	}
	size, err := count(fields, "size")
	if err != nil {
		return Role{}, err
	}
	instanceType, _ := fields["instanceType"].(string)
	command, _ := fields["command"].([]any)
	return Role{
		Name:         name,
		Kind:         kind,
		Replicas:     replicas,
		Size:         size,
		InstanceType: instanceType,
		Unmanaged:    len(command) > 0,
		ElasticEP:    fields["elasticEp"] != nil,
	}, nil
}

// roleKind is empty for a kind that this program does not know (D22).
func roleKind(field any) (observe.RoleKind, error) {
	if field == nil || field == "" {
		return observe.Server, nil
	}
	name, ok := field.(string)
	if !ok {
		return "", fmt.Errorf("kind is a %T, not a string", field)
	}
	switch kind := observe.RoleKind(name); kind {
	case observe.Server, observe.Prefill, observe.Decode, observe.Encode:
		return kind, nil
	}
	return "", nil
}

// count reads a number of replicas or Pods; absent is 1.
func count(fields map[string]any, key string) (int32, error) {
	if fields[key] == nil {
		return 1, nil
	}
	n, ok := integer(fields[key])
	if !ok || n < 0 || n > math.MaxInt32 {
		return 0, fmt.Errorf("%s is %v, not a count", key, fields[key])
	}
	return int32(n), nil
}

// integer reads a JSON number without a fraction.
func integer(field any) (int64, bool) {
	switch n := field.(type) {
	case int64:
		return n, true
	case float64:
		return int64(n), n == math.Trunc(n) && math.Abs(n) < 1<<53
	}
	return 0, false
}
