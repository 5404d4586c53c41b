package fence

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
)

// The codec reads bytes from anybody: what it accepts must survive a round trip unchanged.
func FuzzCodec(f *testing.F) {
	f.Add(Binding{"s1", "u1", 1}.String())
	f.Add(Decision{"0a1b2c3d-2.7.up", 1, map[string]int32{"server": 3}}.String())
	f.Add(`{"scalerName":"s1","scalerName":"s2","scalerUID":"u1","term":1}`)
	f.Add("0a1b2c3d-2.7.up")
	f.Fuzz(func(t *testing.T, value string) {
		if binding, err := ParseBinding(value); err == nil {
			again, err := ParseBinding(binding.String())
			require.NoError(t, err)
			require.Equal(t, binding, again)
		}
		if decision, err := ParseDecision(value); err == nil {
			again, err := ParseDecision(decision.String())
			require.NoError(t, err)
			require.Equal(t, decision, again)
		}
		if id, err := ParseDecisionID(value); err == nil {
			require.Equal(t, value, id.String())
		}
	})
}

// Whatever bytes stand in the annotations, before and after: no panic, and nothing passes that is not meant to.
func FuzzAnnotations(f *testing.F) {
	f.Add(bound3, latest, bound3, decision("lease-2.8.up", 3, counts(3, 2)), true, true)
	f.Add(bound3, latest, "-", latest, false, false)
	f.Add(garbage, latest, bound3, latest, false, false)
	f.Add("-", latest, bound4, decision("lease-2.1.up", 4, counts(3, 2)), true, true)
	f.Add(bound3, "-", reordered, "", false, true)
	f.Fuzz(func(t *testing.T, bindingWas, decisionWas, bindingIs, decisionIs string, grows, decider bool) {
		old, after := object(counts(2, 2), bindingWas, decisionWas), object(counts(2, 2), bindingIs, decisionIs)
		if grows {
			after.Counts = counts(3, 2)
		}
		if Check(Request{Namespace: "ns", Name: "m1", Decider: decider, Old: &old, New: after, Facts: facts("u1")}) != nil {
			return
		}
		switch owner, err := ParseBinding(bindingWas); {
		case decider:
			requireDecided(t, old, after)
		case err == nil && owner.ScalerName == "s1" && owner.ScalerUID == "u1":
			require.Equal(t, old.Counts, after.Counts, "a living owner's counts")
			require.Equal(t, owned(old), owned(after), "a living owner's annotations")
		case err == nil:
			require.Equal(t, old.Counts, after.Counts, "recovery leaves the counts")
		default:
			requireNothingInstalled(t, owned(old), owned(after))
		}
	})
}

// requireDecided: counts moved with a decision that says so, under a binding that can be read.
func requireDecided(t *testing.T, old, after Object) {
	t.Helper()
	if maps.Equal(old.Counts, after.Counts) {
		require.Equal(t, old.Annotations[DecisionAnnotation], after.Annotations[DecisionAnnotation])
		return
	}
	binding, err := ParseBinding(after.Annotations[BindingAnnotation])
	require.NoError(t, err)
	decision, err := ParseDecision(after.Annotations[DecisionAnnotation])
	require.NoError(t, err)
	require.Equal(t, after.Counts, decision.Vector)
	require.Equal(t, binding.Term, decision.Term)
}

// requireNothingInstalled: what is there was there before, or is what the living scaler has on record.
func requireNothingInstalled(t *testing.T, was, is map[string]string) {
	t.Helper()
	for key, value := range is {
		if before, there := was[key]; there && before == value {
			continue
		}
		require.Equal(t, BindingAnnotation, key)
		binding, err := ParseBinding(value)
		require.NoError(t, err)
		require.Equal(t, Binding{"s1", "u1", 3}, binding)
	}
}
