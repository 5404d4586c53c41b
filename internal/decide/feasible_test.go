package decide

import (
	"testing"

	"github.com/stretchr/testify/require"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

func TestFeasible(t *testing.T) {
	bounds := func(name string, low, high int32) workerv1.RoleBounds {
		return workerv1.RoleBounds{Name: name, MinReplicas: low, MaxReplicas: high}
	}
	ratio := func(low, high string) workerv1.Ratio {
		return workerv1.Ratio{NumeratorRole: "a", DenominatorRole: "b", Min: quantityOf(low), Max: quantityOf(high)}
	}
	tests := []struct {
		name   string
		bounds []workerv1.RoleBounds
		ratios []workerv1.Ratio
		want   bool
	}{
		{"no ratios", []workerv1.RoleBounds{bounds("a", 1, 4)}, nil, true},
		{"a floor above the ceiling", []workerv1.RoleBounds{bounds("a", 5, 4)}, nil, false},
		{"a role twice", []workerv1.RoleBounds{bounds("a", 1, 4), bounds("a", 1, 4)}, nil, false},
		{"an omitted floor is one", []workerv1.RoleBounds{bounds("a", 0, 1), bounds("b", 1, 1)}, []workerv1.Ratio{ratio("1", "1")}, true},
		{"a third needs three", []workerv1.RoleBounds{bounds("a", 1, 9), bounds("b", 1, 3)}, []workerv1.Ratio{ratio("0.3333333333", "0.3333333333")}, true},
		{"and cannot be had with two", []workerv1.RoleBounds{bounds("a", 1, 9), bounds("b", 1, 2)}, []workerv1.Ratio{ratio("0.3333333333", "0.3333333333")}, false},
		{"floors too far apart", []workerv1.RoleBounds{bounds("a", 8, 9), bounds("b", 1, 3)}, []workerv1.Ratio{ratio("1", "2")}, false},
		{"a ratio with nobody", []workerv1.RoleBounds{bounds("a", 8, 9)}, []workerv1.Ratio{ratio("1", "2")}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			feasible, decided := Feasible(tt.bounds, tt.ratios)
			require.True(t, decided)
			require.Equal(t, tt.want, feasible)
		})
	}
	t.Run("more counts than a role can have are not searched", func(t *testing.T) {
		_, decided := Feasible([]workerv1.RoleBounds{bounds("a", 1, 1<<30), bounds("b", 1, 4)}, []workerv1.Ratio{ratio("2", "3")})
		require.False(t, decided)
	})
}
