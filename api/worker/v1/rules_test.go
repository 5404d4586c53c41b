package v1_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type edits map[string]any

// change makes the edits, in the order of their paths.
func (e edits) change(t *testing.T, obj map[string]any) {
	t.Helper()
	var paths []string
	for path := range e {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		set(t, obj, path, e[path])
	}
}

// Each CEL rule has a row that it accepts and one that it refuses.
func TestRulesBetweenFields(t *testing.T) {
	ratio := func(target, low, high any) edits {
		return edits{"spec.ratios.0.target": target, "spec.ratios.0.min": low, "spec.ratios.0.max": high}
	}
	tests := []struct {
		name    string
		example string
		edits   edits
		at      string // field of the refusal; empty where the object is accepted
		says    string
	}{
		{"equal bounds are allowed", "proportional", edits{"spec.roles.0.minReplicas": int64(16)}, "", ""},
		{"min over max is refused", "proportional", edits{"spec.roles.0.minReplicas": int64(17)}, "spec.roles.0", "lower minReplicas or raise maxReplicas"},
		{"an omitted min is one", "proportional", edits{"spec.roles.0.minReplicas": gone, "spec.roles.0.maxReplicas": int64(1)}, "", ""},

		{"a type without its block is refused", "proportional", edits{"spec.algorithm.proportional": gone}, "spec.algorithm.proportional", "add proportional: type Proportional needs it"},
		{"token throughput needs its block", "token-throughput", edits{"spec.algorithm.tokenThroughput": gone}, "spec.algorithm.tokenThroughput", "add tokenThroughput: type TokenThroughput"},
		{"predictive needs its block", "predictive", edits{"spec.algorithm.predictive": gone}, "spec.algorithm.predictive", "add predictive: type Predictive needs it"},
		{"a second block is refused", "proportional", edits{"spec.algorithm.tokenThroughput.serverTargetTokensPerSecond": "1"}, "spec.algorithm.tokenThroughput", "remove tokenThroughput, or set type to TokenThroughput: type is Proportional"},
		{"a third block is refused", "token-throughput", edits{"spec.algorithm.predictive.tokenThroughput.serverTargetTokensPerSecond": "1"}, "spec.algorithm.predictive", "remove predictive, or set type to Predictive: type is TokenThroughput"},
		{"another type than the block is refused", "proportional", edits{"spec.algorithm.type": "Predictive"}, "spec.algorithm.proportional", "remove proportional, or set type to Proportional: type is Predictive"},
		{"without mutating webhook the type must be given", "proportional", edits{"spec.algorithm.type": gone}, "spec.algorithm.type", "only the mutating webhook of the scaler infers it"},
		{"without mutating webhook the algorithm must be given", "proportional", edits{"spec.algorithm": gone}, "spec.algorithm.type", "set algorithm.type to Proportional"},

		{"one kind of capacity is enough", "token-throughput", edits{"spec.algorithm.tokenThroughput.prefillTargetTokensPerSecond": gone, "spec.algorithm.tokenThroughput.decodeTargetTokensPerSecond": gone}, "", ""},
		{"no capacity is refused", "token-throughput", edits{"spec.algorithm.tokenThroughput": map[string]any{}}, "spec.algorithm.tokenThroughput", "set the capacity of every kind of role"},
		{"no fallback capacity is refused", "predictive", edits{"spec.algorithm.predictive.tokenThroughput": map[string]any{}}, "spec.algorithm.predictive.tokenThroughput", "set the capacity of every kind of role"},
		{"the fallback is required", "predictive", edits{"spec.algorithm.predictive.tokenThroughput": gone}, "spec.algorithm.predictive.tokenThroughput", "Required value"},
		{"one kind of forecast capacity is enough", "predictive", edits{"spec.algorithm.predictive.serverTokenCapacityPerReplica": gone, "spec.algorithm.predictive.decodeTokenCapacityPerReplica": gone}, "", ""},
		{"no forecast capacity is refused", "predictive", edits{"spec.algorithm.predictive.serverTokenCapacityPerReplica": gone, "spec.algorithm.predictive.prefillTokenCapacityPerReplica": gone, "spec.algorithm.predictive.decodeTokenCapacityPerReplica": gone}, "spec.algorithm.predictive", "set the forecast capacity"},

		{"a pair of roles either way is allowed", "token-throughput", edits{"spec.ratios.1.numeratorRole": "decode"}, "", ""},
		{"a ratio of a role to itself is refused", "token-throughput", edits{"spec.ratios.0.denominatorRole": "prefill"}, "spec.ratios.0.denominatorRole", "two different roles"},
		{"min, target and max may be equal", "token-throughput", ratio("1", "1", "1"), "", ""},
		{"min, target and max compare as numbers", "token-throughput", ratio("900m", "0.5", int64(10)), "", ""},
		{"a ratio may be a target alone", "token-throughput", ratio("3", gone, gone), "", ""},
		{"a ratio may be a band alone", "token-throughput", ratio(gone, "1", "2"), "", ""},
		{"a ratio may be a floor alone", "token-throughput", ratio(gone, "1", gone), "", ""},
		{"a ratio may be a ceiling alone", "token-throughput", ratio(gone, gone, "1"), "", ""},
		{"a ratio's min over max is refused", "token-throughput", ratio(gone, "2.000000001", "2"), "spec.ratios.0.min", "lower min or raise max"},
		{"a target under min is refused", "token-throughput", ratio("499m", "0.5", gone), "spec.ratios.0.target", "raise target or lower min"},
		{"a target over max is refused", "token-throughput", ratio("2.1", gone, int64(2)), "spec.ratios.0.target", "lower target or raise max"},

		{"a ratio's numerator must be scaled", "token-throughput", edits{"spec.ratios.0.numeratorRole": "prefil"}, "spec.ratios", "every numeratorRole of ratios needs an entry in roles"},
		{"a ratio's denominator must be scaled", "token-throughput", edits{"spec.ratios.0.denominatorRole": "decoder"}, "spec.ratios", "every denominatorRole of ratios needs an entry in roles"},
		{"a target's role must be scaled", "proportional", edits{"spec.algorithm.proportional.roleTargets.0.name": "servers"}, "spec.algorithm.proportional.roleTargets", "needs an entry in roles"},
		{"a priority must be a scaled role", "token-throughput", edits{"spec.rebalance.priority.0": "router"}, "spec.rebalance.priority", "role router of rebalance.priority needs an entry in roles"},
		{"priorities may leave roles out", "token-throughput", edits{"spec.rebalance.priority": []any{"decode"}}, "", ""},
		{"no priorities are allowed", "token-throughput", edits{"spec.rebalance.priority": []any{}}, "", ""},

		{"the tolerance may be one", "proportional", edits{"spec.algorithm.proportional.tolerance": int64(1)}, "", ""},
		{"a tolerance over one is refused", "proportional", edits{"spec.algorithm.proportional.tolerance": "1.000000001"}, "spec.algorithm.proportional.tolerance", "at most 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			obj := example(t, tt.example)
			tt.edits.change(t, obj)
			errs := write(t, obj, nil, false)
			if tt.at == "" {
				require.Empty(t, errs)
				return
			}
			requireRefused(t, errs, tt.at, tt.says)
		})
	}
}

func TestTheTargetCannotBeChanged(t *testing.T) {
	old, obj := example(t, "proportional"), example(t, "proportional")
	set(t, obj, "spec.roles.0.maxReplicas", int64(20))
	require.Empty(t, write(t, obj, old, false))

	set(t, obj, "spec.targetRef.name", "another")
	requireRefused(t, write(t, obj, old, false), "spec.targetRef", "delete this scaler and create one for the other deployment")
	require.Empty(t, write(t, obj, nil, false))
}

// D42: quantities are positive and finite; the noise values of the filter may have any sign.
func TestQuantitiesOfTheSpec(t *testing.T) {
	of := map[string]string{"proportional": "spec.algorithm.proportional.", "tokenThroughput": "spec.algorithm.tokenThroughput.", "predictive": "spec.algorithm.predictive.", "ratios": "spec.ratios.0."}
	rows := []struct {
		example, block string
		names          []string
	}{
		{"proportional", "proportional", []string{"tolerance", "roleTargets.0.target"}},
		{"token-throughput", "ratios", []string{"target", "min", "max"}},
		{"token-throughput", "tokenThroughput", []string{"serverTargetTokensPerSecond", "prefillTargetTokensPerSecond", "decodeTargetTokensPerSecond", "panicThreshold", "ttftTargetMilliseconds", "itlTargetMilliseconds"}},
		{"predictive", "predictive", []string{
			"tokenThroughput.serverTargetTokensPerSecond", "tokenThroughput.prefillTargetTokensPerSecond", "tokenThroughput.decodeTargetTokensPerSecond",
			"tokenThroughput.panicThreshold", "tokenThroughput.ttftTargetMilliseconds", "tokenThroughput.itlTargetMilliseconds",
			"serverTokenCapacityPerReplica", "prefillTokenCapacityPerReplica", "decodeTokenCapacityPerReplica", "qLevel", "qTrend", "measurementNoise",
		}},
	}
	anySign := []string{"qLevel", "qTrend", "measurementNoise"}
	covered := map[string]bool{}
	for _, row := range rows {
		for _, name := range row.names {
			path := of[row.block] + name
			covered[strings.NewReplacer(".0.", "[].").Replace(path)] = true
			t.Run(path, func(t *testing.T) {
				try := func(value any) error {
					obj := example(t, row.example)
					if row.block == "ratios" { // alone, so that only its own value matters
						set(t, obj, "spec.ratios.0", map[string]any{"numeratorRole": "prefill", "denominatorRole": "decode"})
					}
					set(t, obj, path, value)
					return write(t, obj, nil, false).ToAggregate()
				}
				for _, value := range []any{"0.5", int64(1), "1n", "0.000000001", "1e-9", "1E-09", "1.0n", "1.5n", "2e-9", "100m", ".5", "+1"} {
					require.NoError(t, try(value), value)
				}
				for _, value := range []any{"0", int64(0), "-1", "-1n", int64(-3)} {
					if slices.Contains(anySign, name) {
						require.NoError(t, try(value), value)
						continue
					}
					require.ErrorContains(t, try(value), "must be a quantity over 0", value)
				}
				for _, value := range []any{"0.5n", "1e-10", "0.0000000009", "0.9999999999n", "0.0001u"} {
					if slices.Contains(anySign, name) {
						require.NoError(t, try(value), value)
						continue
					}
					require.ErrorContains(t, try(value), "not under 1e-9", value) // which it would be rounded up to
				}
				for _, value := range []any{"NaN", "Inf", "many", "", " 1", "1e100", "1e-100", "1e9999999", "-1e-9999999"} {
					require.ErrorContains(t, try(value), "should match", value)
				}
				require.ErrorContains(t, try(strings.Repeat("1", 65)), "may not be more than 64")
			})
		}
	}
	for path, s := range fields(t) {
		if strings.HasPrefix(path, "spec.") && s.XIntOrString {
			require.True(t, covered[path], "%s has no row", path)
		}
	}
}
