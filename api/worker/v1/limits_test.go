package v1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The ranges and defaults of whole numbers, as the spec gives them.
func TestNumbersHaveTheRangesOfTheSpec(t *testing.T) {
	tests := []struct {
		example, path string
		least, most   int64
		stored        any // what omission stores; nil where the field is required
	}{
		{"proportional", "spec.sampling.intervalSeconds", 5, 300, int64(15)},
		{"proportional", "spec.sampling.pendingTimeoutSeconds", 60, 1200, int64(300)},
		{"proportional", "spec.roles.0.minReplicas", 1, 1024, int64(1)},
		{"proportional", "spec.roles.0.maxReplicas", 1, 1024, nil},
		{"proportional", "spec.behavior.scaleUp.stabilizationWindowSeconds", 0, 600, int64(0)},
		{"proportional", "spec.behavior.scaleUp.maxStepReplicas", 0, 1024, int64(4)},
		{"proportional", "spec.behavior.scaleUp.maxStepPercent", 0, 1000, int64(100)},
		{"proportional", "spec.behavior.scaleUp.stepPolicy.value", 0, 1000000, nil},
		{"proportional", "spec.behavior.scaleDown.stabilizationWindowSeconds", 0, 1800, int64(300)},
		{"proportional", "spec.behavior.scaleDown.cooldownAfterAbortSeconds", 0, 3600, int64(300)},
		{"proportional", "spec.behavior.scaleDown.decodePostScaleUpGraceSeconds", 0, 3600, int64(120)},
		{"proportional", "spec.behavior.scaleDown.stepPolicy.value", 0, 1000000, nil},
		{"token-throughput", "spec.algorithm.tokenThroughput.stableWindowSeconds", 30, 600, int64(180)},
		{"token-throughput", "spec.algorithm.tokenThroughput.panicWindowSeconds", 10, 300, int64(60)},
		{"predictive", "spec.algorithm.predictive.tokenThroughput.stableWindowSeconds", 30, 600, int64(180)},
		{"predictive", "spec.algorithm.predictive.tokenThroughput.panicWindowSeconds", 10, 300, int64(60)},
		{"predictive", "spec.algorithm.predictive.horizonSeconds", 30, 600, int64(300)},
		{"predictive", "spec.algorithm.predictive.minPoints", 1, 64, int64(6)},
	}
	covered := map[string]bool{}
	for _, tt := range tests {
		covered[strings.ReplaceAll(tt.path, ".0.", "[].")] = true
		t.Run(tt.path, func(t *testing.T) {
			with := func(value any) (map[string]any, field.ErrorList) {
				obj := example(t, tt.example)
				set(t, obj, "spec.roles.0.minReplicas", int64(1))
				set(t, obj, "spec.roles.0.maxReplicas", int64(1024))
				set(t, obj, tt.path, value)
				return obj, write(t, obj, nil, false)
			}
			for _, value := range []int64{tt.least, tt.most} {
				_, errs := with(value)
				require.Empty(t, errs)
			}
			for _, value := range []int64{tt.least - 1, tt.most + 1} {
				_, errs := with(value)
				requireRefused(t, errs, tt.path, "should be")
			}
			obj, errs := with(gone)
			if tt.stored == nil {
				requireRefused(t, errs, tt.path, "Required value")
				return
			}
			require.Empty(t, errs)
			require.Equal(t, tt.stored, get(obj, tt.path))
		})
	}
	for path, s := range fields(t) {
		if strings.HasPrefix(path, "spec.") && s.Type == "integer" {
			require.True(t, covered[path], "%s has no row", path)
		}
	}
}

func TestListsStringsAndEnumsAreLimited(t *testing.T) {
	entries := func(n int, entry func(i int) any) []any {
		list := make([]any, n)
		for i := range list {
			list[i] = entry(i)
		}
		return list
	}
	role := func(i int) any {
		return map[string]any{"name": fmt.Sprintf("role-%d", i), "maxReplicas": int64(4)}
	}
	name := func(i int) any { return fmt.Sprintf("role-%d", i) }
	target := func(i int) any { return map[string]any{"name": name(i), "target": "1"} }
	ratio := func(i int) any {
		return map[string]any{"numeratorRole": name(i / 16), "denominatorRole": name(15 - i%16)}
	}
	var twoOfOne []any
	for range 2 {
		twoOfOne = append(twoOfOne, role(0))
	}
	tests := []struct {
		name    string
		path    string
		value   any
		refusal string
	}{
		{"a target is named", "spec.targetRef.name", gone, "Required value"},
		{"an empty target name", "spec.targetRef.name", "", "should be at least 1 chars long"},
		{"a target name over 253 characters", "spec.targetRef.name", strings.Repeat("n", 254), "may not be more than 253"},
		{"an unknown mode", "spec.mode", "Dry", "supported values"},
		{"no roles", "spec.roles", []any{}, "should have at least 1 items"},
		{"roles are required", "spec.roles", gone, "Required value"},
		{"17 roles", "spec.roles", entries(17, role), "must have at most 16 items"},
		{"one role twice", "spec.roles", twoOfOne, "Duplicate value"},
		{"a role without a name", "spec.roles.0.name", gone, "Required value"},
		{"an empty role name", "spec.roles.0.name", "", "should be at least 1 chars long"},
		{"a role name over 63 characters", "spec.roles.0.name", strings.Repeat("r", 64), "may not be more than 63"},
		{"33 ratios", "spec.ratios", entries(33, ratio), "must have at most 32 items"},
		{"a ratio without numerator", "spec.ratios.0.numeratorRole", gone, "Required value"},
		{"a ratio without denominator", "spec.ratios.0.denominatorRole", gone, "Required value"},
		{"an empty numerator", "spec.ratios.0.numeratorRole", "", "should be at least 1 chars long"},
		{"an empty denominator", "spec.ratios.0.denominatorRole", "", "should be at least 1 chars long"},
		{"a numerator over 63 characters", "spec.ratios.0.numeratorRole", strings.Repeat("r", 64), "may not be more than 63"},
		{"a denominator over 63 characters", "spec.ratios.0.denominatorRole", strings.Repeat("r", 64), "may not be more than 63"},
		{"one ratio twice", "spec.ratios", []any{ratio(0), ratio(0)}, "Duplicate value"},
		{"an unknown algorithm", "spec.algorithm.type", "Magic", "supported values"},
		{"a metric is named", "spec.algorithm.proportional.metric", gone, "Required value"},
		{"an unknown metric", "spec.algorithm.proportional.metric", "GPU", "supported values"},
		{"targets are required", "spec.algorithm.proportional.roleTargets", gone, "Required value"},
		{"no targets", "spec.algorithm.proportional.roleTargets", []any{}, "should have at least 1 items"},
		{"17 targets", "spec.algorithm.proportional.roleTargets", entries(17, target), "must have at most 16 items"},
		{"two targets of one role", "spec.algorithm.proportional.roleTargets", []any{target(0), target(0)}, "Duplicate value"},
		{"a target without a value", "spec.algorithm.proportional.roleTargets.0.target", gone, "Required value"},
		{"a target without a name", "spec.algorithm.proportional.roleTargets.0.name", gone, "Required value"},
		{"a target with an empty name", "spec.algorithm.proportional.roleTargets.0.name", "", "should be at least 1 chars long"},
		{"a target with a name over 63 characters", "spec.algorithm.proportional.roleTargets.0.name", strings.Repeat("r", 64), "may not be more than 63"},
		{"an unknown step unit upwards", "spec.behavior.scaleUp.stepPolicy.type", "Nodes", "supported values"},
		{"a step without unit upwards", "spec.behavior.scaleUp.stepPolicy.type", gone, "Required value"},
		{"an unknown step unit downwards", "spec.behavior.scaleDown.stepPolicy.type", "Nodes", "supported values"},
		{"a step without unit downwards", "spec.behavior.scaleDown.stepPolicy.type", gone, "Required value"},
		{"an unknown rebalance policy", "spec.rebalance.policy", "Steal", "supported values"},
		{"17 priorities", "spec.rebalance.priority", entries(17, name), "must have at most 16 items"},
		{"a priority twice", "spec.rebalance.priority", []any{"server", "server"}, "Duplicate value"},
		{"an empty priority", "spec.rebalance.priority.0", "", "should be at least 1 chars long"},
		{"a priority over 63 characters", "spec.rebalance.priority.0", strings.Repeat("r", 64), "may not be more than 63"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			obj := example(t, "proportional")
			set(t, obj, "spec.roles", []any{get(obj, "spec.roles.0"), role(0)})
			set(t, obj, "spec.ratios", []any{map[string]any{"numeratorRole": "server", "denominatorRole": "role-0"}})
			set(t, obj, "spec.rebalance.priority", []any{"server"})
			require.Empty(t, write(t, obj, nil, false))

			set(t, obj, tt.path, tt.value)
			requireRefused(t, write(t, obj, nil, false), tt.path, tt.refusal)
		})
	}
}

// requireRefused wants a refusal at the field at path, or at an entry of it, that says so.
func requireRefused(t *testing.T, errs field.ErrorList, path, says string) {
	t.Helper()
	for _, err := range errs {
		at := strings.NewReplacer("[", ".", "]", "").Replace(err.Field)
		if (at == path || strings.HasPrefix(at, path+".")) && strings.Contains(err.Error(), says) {
			return
		}
	}
	require.Failf(t, "not refused", "want %q at %s, got %v", says, path, errs.ToAggregate())
}
