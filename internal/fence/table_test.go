package fence_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/test/ownership"
)

// Every combination of who writes what to which deployment gets the verdict that the spec gives.
func TestEveryCombination(t *testing.T) {
	names := ownership.Names{Scaler: "s1", UID: "u1", Epoch: "lease-2"}
	combinations, allowed := 0, 0
	var unexpected []string
	for c := range ownership.All() {
		refusal := fence.Check(requestOf(c, names))
		if c.Allowed(names) != (refusal == nil) {
			unexpected = append(unexpected, fmt.Sprintf("%+v: %v", c, refusal))
		}
		combinations++
		if refusal == nil {
			allowed++
		}
	}
	require.Empty(t, unexpected)
	require.Equal(t, 104976, combinations, "the table is complete")
	t.Logf("%d combinations, %d allowed, %d refused, 0 unexpected", combinations, allowed, combinations-allowed)
}

func requestOf(c ownership.Case, n ownership.Names) fence.Request {
	old := objectOf(c.Old(n))
	return fence.Request{
		Namespace: "ns", Name: "m1", Decider: c.Actor == ownership.Decider, Old: &old, New: objectOf(c.New(n)),
		Facts: fence.Facts{
			Scaler: func(name string) (*fence.Scaler, error) {
				if c.State == ownership.Orphaned || name != n.Scaler {
					return nil, nil
				}
				return &fence.Scaler{UID: n.UID, TargetUID: "d1", Term: 3}, nil
			},
			Epoch: func() (fence.Epoch, error) { return fence.Epoch{LeaseUID: "lease", Transitions: 2}, nil },
		},
	}
}

func objectOf(o ownership.Object) fence.Object {
	object := fence.Object{UID: "d1", Counts: map[string]int32{}, Annotations: map[string]string{"example.com/note": "x"}}
	for _, role := range o.Roles {
		object.Counts[role.Name] = int32(max(role.Replicas, 1))
	}
	for key, value := range map[string]*string{fence.BindingAnnotation: o.Binding, fence.DecisionAnnotation: o.Decision} {
		if value != nil {
			object.Annotations[key] = *value
		}
	}
	return object
}
