package fence

import (
	"errors"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// anyWrite draws a write out of few values, so that every combination of near misses occurs.
func anyWrite(t *rapid.T) Request {
	bindings := rapid.SampledFrom([]string{"-", "", garbage, bound2, bound3, bound4, others, reordered})
	vectors := rapid.SampledFrom([]map[string]int32{
		counts(2, 2), counts(3, 2), counts(1, 2), counts(3, 3), counts(3, 1), {"prefill": 2}, {"prefill": 2, "decode": 2, "encode": 1}})
	decisions := rapid.Custom(func(t *rapid.T) string {
		id := DecisionID{
			Epoch:    rapid.SampledFrom([]string{"lease-1", "lease-2"}).Draw(t, "epoch"),
			Sequence: rapid.Int64Range(6, 8).Draw(t, "sequence"),
			Kind:     rapid.SampledFrom(kinds).Draw(t, "kind"),
		}
		written := decision(id.String(), rapid.Int64Range(2, 4).Draw(t, "term"), vectors.Draw(t, "vector"))
		return rapid.SampledFrom([]string{"-", "", "x", latest, written, written, written}).Draw(t, "decision")
	})
	was := object(vectors.Draw(t, "counts"), bindings.Draw(t, "binding"), decisions.Draw(t, "decision"))
	is := object(vectors.Draw(t, "new counts"), bindings.Draw(t, "new binding"), decisions.Draw(t, "new decision"))
	if rapid.Bool().Draw(t, "binding stays") {
		setOrDelete(is.Annotations, was.Annotations, BindingAnnotation)
	}
	if rapid.Bool().Draw(t, "decision stays") {
		setOrDelete(is.Annotations, was.Annotations, DecisionAnnotation)
	}
	return Request{Namespace: "ns", Name: "m1", Old: &was, New: is,
		Facts: facts(rapid.SampledFrom([]string{"", "u1", "u9"}).Draw(t, "living scaler"))}
}

func setOrDelete(into, from map[string]string, key string) {
	delete(into, key)
	if value, ok := from[key]; ok {
		into[key] = value
	}
}

// owned is what a bound deployment's owner owns: counts and both annotations, presence included.
func owned(o Object) (owned map[string]string) {
	owned = maps.Clone(o.Annotations)
	maps.DeleteFunc(owned, func(key, _ string) bool { return key != BindingAnnotation && key != DecisionAnnotation })
	return owned
}

func TestNobodyMovesABoundDeploymentButItsOwner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyWrite(t)
		binding, err := ParseBinding(r.Old.Annotations[BindingAnnotation])
		if err != nil || Check(r) != nil {
			return // not bound, or refused
		}
		require.Equal(t, r.Old.Counts, r.New.Counts, "counts of a bound deployment")
		if maps.Equal(owned(*r.Old), owned(r.New)) {
			return
		}
		require.NotContains(t, r.New.Annotations, BindingAnnotation, "only recovery changes annotations")
		scaler, err := r.Facts.Scaler(binding.ScalerName)
		require.NoError(t, err)
		require.True(t, scaler == nil || scaler.UID != binding.ScalerUID, "recovery of a binding whose scaler lives")
	})
}

func TestNobodyWritesAnOwnershipAnnotationButTheDecider(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyWrite(t)
		if Check(r) != nil {
			return
		}
		for key, value := range owned(r.New) {
			if old, was := r.Old.Annotations[key]; was && old == value {
				continue
			}
			require.Equal(t, BindingAnnotation, key)
			_, err := ParseBinding(r.Old.Annotations[key])
			require.Error(t, err, "putting back repairs, it never replaces")
			binding, err := ParseBinding(value)
			require.NoError(t, err)
			require.Equal(t, Binding{"s1", "u1", 3}, binding, "only what the living scaler records is put back")
		}
	})
}

func TestWhatTheDeciderCommitsIsWhatItDecided(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyWrite(t)
		r.Decider = true
		if Check(r) != nil {
			return
		}
		before, _ := ParseDecision(r.Old.Annotations[DecisionAnnotation])
		if maps.Equal(r.Old.Counts, r.New.Counts) {
			require.Equal(t, r.Old.Annotations[DecisionAnnotation], r.New.Annotations[DecisionAnnotation], "a decision moves counts")
			return
		}
		binding, err := ParseBinding(r.New.Annotations[BindingAnnotation])
		require.NoError(t, err, "counts move under a binding")
		after, err := ParseDecision(r.New.Annotations[DecisionAnnotation])
		require.NoError(t, err)
		require.Equal(t, r.New.Counts, after.Vector)
		require.Equal(t, binding.Term, after.Term)
		require.GreaterOrEqual(t, after.Term, before.Term)
		require.Equal(t, lease.String(), after.id().Epoch)
		require.True(t, before.DecisionID == "" || after.Term > before.Term || after.id().Sequence > before.id().Sequence)
	})
}

// Whoever asks, and whatever the write: facts that cannot be had never allow more than facts that can.
func TestMissingFactsNeverAllowMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyWrite(t)
		r.Decider = rapid.Bool().Draw(t, "decider")
		known := Check(r)
		down := errors.New("connection refused")
		r.Facts = Facts{
			Scaler: func(string) (*Scaler, error) { return nil, down },
			Epoch:  func() (Epoch, error) { return Epoch{}, down },
		}
		if known != nil {
			require.NotNil(t, Check(r))
		}
	})
}
