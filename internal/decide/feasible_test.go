package decide

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

func boundsOf(name string, low, high int32) workerv1.RoleBounds {
	return workerv1.RoleBounds{Name: name, MinReplicas: low, MaxReplicas: high}
}

// within is a ratio with a band; an empty limit is none.
func within(numerator, denominator, low, high string) workerv1.Ratio {
	r := workerv1.Ratio{NumeratorRole: numerator, DenominatorRole: denominator}
	if low != "" {
		r.Min = quantityOf(low)
	}
	if high != "" {
		r.Max = quantityOf(high)
	}
	return r
}

func TestFeasible(t *testing.T) {
	type (
		roles  = []workerv1.RoleBounds
		ratios = []workerv1.Ratio
	)
	third := "0.3333333333"
	tests := []struct {
		name   string
		bounds roles
		ratios ratios
		want   *Conflict
	}{
		{"no ratios", roles{boundsOf("a", 1, 4)}, nil, nil},
		{"a floor above the ceiling", roles{boundsOf("b", 1, 4), boundsOf("a", 5, 4)}, nil, &Conflict{Roles: []int{1}}},
		{"an omitted floor is one", roles{boundsOf("a", 0, 1), boundsOf("b", 1, 1)}, ratios{within("a", "b", "1", "1")}, nil},
		{"a third needs three", roles{boundsOf("a", 1, 9), boundsOf("b", 1, 3)}, ratios{within("a", "b", third, third)}, nil},
		{"and cannot be had with two", roles{boundsOf("a", 1, 9), boundsOf("b", 1, 2)}, ratios{within("a", "b", third, third)}, &Conflict{[]int{0, 1}, []int{0}}},
		{"floors too far apart", roles{boundsOf("a", 8, 9), boundsOf("b", 1, 3)}, ratios{within("a", "b", "1", "2")}, &Conflict{[]int{0, 1}, []int{0}}},
		{"a ratio with nobody", roles{boundsOf("a", 8, 9)}, ratios{within("a", "b", "1", "2")}, nil},
		{"one to four is allowed at a quarter, one to five is not (U-D02)", roles{boundsOf("p", 1, 1), boundsOf("d", 4, 4)}, ratios{within("p", "d", "0.25", "")}, nil},
		{"one to five is below a quarter (U-D02)", roles{boundsOf("p", 1, 1), boundsOf("d", 5, 5)}, ratios{within("p", "d", "0.25", "")}, &Conflict{[]int{0, 1}, []int{0}}},
		{"the reverse pair is another one, and may agree (U-D02)", roles{boundsOf("p", 1, 8), boundsOf("d", 1, 8)},
			ratios{within("p", "d", "0.5", "2"), within("d", "p", "0.5", "1")}, nil},
		{"or contradict (U-D02)", roles{boundsOf("p", 1, 8), boundsOf("d", 1, 8)},
			ratios{within("p", "d", "2", "4"), within("d", "p", "1", "2")}, &Conflict{[]int{0, 1}, []int{0, 1}}},
		{"only the ratios that contradict each other are named", roles{boundsOf("a", 1, 9), boundsOf("b", 1, 9), boundsOf("c", 1, 9), boundsOf("d", 1, 9)},
			ratios{within("d", "a", "1", "2"), within("a", "b", "2", ""), within("b", "c", "2", ""), within("d", "c", "", "2"), within("c", "a", "1", "")},
			&Conflict{[]int{0, 1, 2}, []int{1, 2, 4}}},
		{"a target binds nobody", roles{boundsOf("a", 1, 2), boundsOf("b", 1, 2)},
			ratios{{NumeratorRole: "a", DenominatorRole: "b", Target: quantityOf("100")}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conflict, decided := Feasible(tt.bounds, tt.ratios)
			require.True(t, decided)
			require.Equal(t, tt.want, conflict)
		})
	}
	t.Run("a contradiction around a wide circle is beyond the budget, so it is not claimed", func(t *testing.T) {
		conflict, decided := Feasible(
			roles{boundsOf("a", 1, 1024), boundsOf("b", 1, 1024), boundsOf("c", 1, 1024), boundsOf("d", 1, 1024)},
			ratios{within("a", "b", "1", "2"), within("b", "c", "1", "2"), within("c", "d", "1", "2"), within("d", "a", "1.01", "2")})
		require.False(t, decided)
		require.Nil(t, conflict)
	})
	t.Run("more counts than a role can have are not searched", func(t *testing.T) {
		conflict, decided := Feasible(roles{boundsOf("a", 1, 1<<30), boundsOf("b", 1, 4)}, ratios{within("a", "b", "2", "3")})
		require.False(t, decided)
		require.Nil(t, conflict)
	})
}

// Random small configurations, each answered by trying every vector: what is refused is impossible, and every ratio that is
// named is needed for that.
func TestFeasibleAgreesWithBruteForce(t *testing.T) {
	const wanted = 120_000
	r := rand.New(rand.NewPCG(5, 200_000))
	var proofs, witnesses, undecided int
	for range wanted {
		bounds, ratios := smallPolicy(r)
		conflict, decided := Feasible(bounds, ratios)
		switch {
		case !decided:
			undecided++
		case conflict == nil:
			witnesses++
			require.True(t, someVector(bounds, ratios), "no vector for %v %v", bounds, ratios)
		default:
			proofs++
			requireLeastConflict(t, bounds, ratios, conflict)
		}
	}
	t.Logf("%d configurations: %d proved impossible, %d feasible, %d undecided; 0 false proofs", wanted, proofs, witnesses, undecided)
	require.Zero(t, undecided, "so small a search ends")
	require.Greater(t, proofs, wanted/10, "too few impossible ones to mean something")
	require.Greater(t, witnesses, wanted/10)
}

func requireLeastConflict(t *testing.T, bounds []workerv1.RoleBounds, ratios []workerv1.Ratio, c *Conflict) {
	t.Helper()
	require.False(t, someVector(bounds, ratios), "false proof: %v %v", bounds, ratios)
	require.NotEmpty(t, c.Ratios)
	pick := func(without int) (picked []workerv1.Ratio) {
		for _, i := range c.Ratios {
			if i != without {
				picked = append(picked, ratios[i])
			}
		}
		return picked
	}
	require.False(t, someVector(bounds, pick(-1)), "the named ratios can be met: %v %v", bounds, ratios)
	for _, i := range c.Ratios {
		require.True(t, someVector(bounds, pick(i)), "ratio %d is not needed: %v %v", i, bounds, ratios)
	}
}

// smallPolicy has two to four roles of few counts and up to five bands, also contradicting, reversed and cyclic ones.
func smallPolicy(r *rand.Rand) (bounds []workerv1.RoleBounds, ratios []workerv1.Ratio) {
	roles := 2 + r.IntN(3)
	for i := range roles {
		low := 1 + r.Int32N(6)
		bounds = append(bounds, boundsOf(fmt.Sprintf("r%d", i), low, low+r.Int32N(5)))
	}
	limits := []string{"", "0.25", "0.333333334", "0.5", "0.666666667", "0.75", "1", "1.5", "2", "3", "4"}
	for range 1 + r.IntN(5) {
		n := r.IntN(roles)
		d := (n + 1 + r.IntN(roles-1)) % roles
		low := r.IntN(len(limits))
		high := low + r.IntN(min(7, len(limits)-low))
		ratios = append(ratios, within(bounds[n].Name, bounds[d].Name, limits[low], limits[high]))
	}
	return bounds, ratios
}

// someVector tries every vector, with the band as the spec has it: numerator count divided by denominator count.
func someVector(bounds []workerv1.RoleBounds, ratios []workerv1.Ratio) bool {
	counts := workerv1.Vector{}
	var try func(i int) bool
	try = func(i int) bool {
		if i == len(bounds) {
			return withinAll(ratios, counts)
		}
		for n := bounds[i].MinReplicas; n <= bounds[i].MaxReplicas; n++ {
			counts[bounds[i].Name] = n
			if try(i + 1) {
				return true
			}
		}
		return false
	}
	return try(0)
}

// withinAll judges with floats: at so small counts a slack of 1e-8 (D28) is far over their error and far under the distance
// of two ratios.
func withinAll(ratios []workerv1.Ratio, counts workerv1.Vector) bool {
	for _, r := range ratios {
		is := float64(counts[r.NumeratorRole]) / float64(counts[r.DenominatorRole])
		if r.Min != nil && is < r.Min.AsApproximateFloat64()*(1-1e-8) || r.Max != nil && is > r.Max.AsApproximateFloat64()*(1+1e-8) {
			return false
		}
	}
	return true
}

func TestBrokenIsTheFirstRatioThatCountsViolate(t *testing.T) {
	ratios := []workerv1.Ratio{within("a", "x", "1", "1"), within("a", "b", "", "2"), within("b", "a", "1", "")}
	require.Equal(t, -1, Broken(ratios, workerv1.Vector{"a": 1, "b": 1}))
	require.Equal(t, 1, Broken(ratios, workerv1.Vector{"a": 3, "b": 1}))
	require.Equal(t, 2, Broken(ratios, workerv1.Vector{"a": 2, "b": 1}))
	require.Equal(t, "a/b within [0, 2]", BandOf(ratios[1]))
}
