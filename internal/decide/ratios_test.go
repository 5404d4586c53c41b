package decide

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

func bandWith(low, high string) band {
	r := workerv1.Ratio{NumeratorRole: "a", DenominatorRole: "b"}
	if low != "" {
		r.Min = quantityOf(low)
	}
	if high != "" {
		r.Max = quantityOf(high)
	}
	return bandsOf([]workerv1.Ratio{r})[0]
}

func TestBandsAreExactButForTheirSlack(t *testing.T) {
	tests := []struct {
		name      string
		low, high string
		a, b      int32
		want      bool
	}{
		{"no limits allow everything", "", "", 1, 1024, true},
		{"the lower edge is inside", "0.25", "1", 1, 4, true},
		{"the upper edge is inside", "0.25", "1", 4, 4, true},
		{"one less is outside", "0.25", "1", 1, 5, false},
		{"one more is outside", "0.25", "1", 5, 4, false},
		{"a third in ten digits allows one to three", "0.3333333333", "", 1, 3, true},
		{"a third in nine digits too", "0.333333334", "", 1, 3, true},
		{"a third in six digits below", "0.333333", "", 1, 3, true},
		{"six digits above are another number", "0.333334", "", 1, 3, false},
		{"two thirds as a ceiling allow two to three", "", "0.666666666", 2, 3, true},
		{"a rounded two thirds do not", "", "0.66", 2, 3, false},
		{"large counts stay exact", "1.0009765625", "", 1025, 1024, true},
		{"also one beside the edge", "1.0009765625", "", 1024, 1024, false},
		{"a limit beyond every ratio", "", "99999999999999", 1024, 1, true},
		{"a limit that no ratio reaches", "99999999999999", "", 1024, 1, false},
		{"a fixed ratio", "2", "2", 6, 3, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := bandWith(tt.low, tt.high)
			require.Equal(t, tt.want, b.allows(tt.a, tt.b))
		})
	}
}

func TestConflictsStopPlanning(t *testing.T) {
	ratio := func(high string) []workerv1.Ratio {
		return []workerv1.Ratio{{NumeratorRole: "a", DenominatorRole: "b", Max: quantityOf(high)}}
	}
	tests := []struct {
		name   string
		change func(*setting)
		reason string
		says   string
	}{
		{"a role without bounds", func(s *setting) { s.Scaler.Spec.Roles = s.Scaler.Spec.Roles[:1] }, "BoundsConflict", "role b of the target has no bounds"},
		{"bounds given twice", func(s *setting) {
			s.Scaler.Spec.Roles = append(s.Scaler.Spec.Roles, workerv1.RoleBounds{Name: "a", MaxReplicas: 3})
		}, "BoundsConflict", "bounds twice"},
		{"a floor above the ceiling", func(s *setting) { s.Scaler.Spec.Roles[0].MinReplicas = 17 }, "BoundsConflict", "minReplicas above"},
		{"a ceiling of zero", func(s *setting) { s.Scaler.Spec.Roles[0] = workerv1.RoleBounds{Name: "a"} }, "BoundsConflict", "minReplicas above"},
		{"a current count over its ceiling", func(s *setting) { s.Scaler.Spec.Roles[0].MaxReplicas = 3 }, "BoundsConflict", "role a has 4 replicas"},
		{"a current count under its floor", func(s *setting) { s.Scaler.Spec.Roles[1].MinReplicas = 3 }, "BoundsConflict", "role b has 2 replicas"},
		{"a role that the target has twice", func(s *setting) { s.Target.Roles[1].Name = "a" }, "BoundsConflict", "twice on the target"},
		{"a target without roles", func(s *setting) { s.Target.Roles = nil }, "BoundsConflict", "no roles"},
		{"a vector outside its band", func(s *setting) { s.Scaler.Spec.Ratios = ratio("1.9") }, "RatioConflict", "a/b within [0, 1.9]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := with(named("a", observe.Server, 4), named("b", observe.Server, 2)).queue("a", 90).queue("b", 90)
			tt.change(s)
			d := Plan(s.Input)
			require.Nil(t, d.Commit)
			for _, kind := range []string{workerv1.ConditionBlocked, workerv1.ConditionMetricsReady} {
				require.Equal(t, tt.reason, findCondition(d.State.Conditions, kind).Reason)
				require.Contains(t, findCondition(d.State.Conditions, kind).Message, tt.says)
			}
			for _, r := range d.State.Roles {
				require.Equal(t, r.Current, r.Constrained)
			}
			require.Equal(t, "True/Active", conditionOf(d.State, workerv1.ConditionActive), "the binding is held all the same")
		})
	}
	t.Run("a vector on the edge of its band plans", func(t *testing.T) {
		s := with(named("a", observe.Server, 4), named("b", observe.Server, 2)).queue("a", 40).queue("b", 40)
		s.Scaler.Spec.Ratios = ratio("2")
		require.NotNil(t, Plan(s.Input).Commit)
	})
	t.Run("a ratio with a role that the target lacks binds nobody", func(t *testing.T) {
		s := with(named("a", observe.Server, 4)).queue("a", 90)
		s.Scaler.Spec.Ratios = ratio("2")
		require.NotNil(t, Plan(s.Input).Commit)
	})
}

func TestCoupledRolesFollowTheirPartners(t *testing.T) {
	ratio := func(numerator, denominator, low, target, high string) workerv1.Ratio {
		r := workerv1.Ratio{NumeratorRole: numerator, DenominatorRole: denominator}
		for _, limit := range []struct {
			text string
			into **resource.Quantity
		}{{low, &r.Min}, {target, &r.Target}, {high, &r.Max}} {
			if limit.text != "" {
				*limit.into = quantityOf(limit.text)
			}
		}
		return r
	}
	tests := []struct {
		name          string
		ratios        []workerv1.Ratio
		first, second int32 // raw of the two partners, by their queues
		want          int32 // raw of side, which has three
	}{
		{"the target ratio above the line", []workerv1.Ratio{ratio("side", "first", "", "0.5", "")}, 7, 1, 4},
		{"and below it", []workerv1.Ratio{ratio("first", "side", "", "2", "")}, 7, 1, 4},
		{"a third rounds to what it means", []workerv1.Ratio{ratio("side", "first", "", "0.3333333333", "")}, 9, 1, 3},
		{"three as well", []workerv1.Ratio{ratio("first", "side", "", "3", "")}, 9, 1, 3},
		{"the largest of several partners", []workerv1.Ratio{ratio("side", "first", "", "0.5", ""), ratio("side", "second", "", "1", "")}, 4, 5, 5},
		{"a band alone keeps the count inside", []workerv1.Ratio{ratio("side", "first", "0.5", "", "1")}, 4, 1, 3},
		{"raises it to the edge", []workerv1.Ratio{ratio("side", "first", "0.5", "", "1")}, 9, 1, 5},
		{"or lowers it", []workerv1.Ratio{ratio("side", "first", "0.5", "", "1")}, 2, 1, 2},
		{"a band below the line", []workerv1.Ratio{ratio("first", "side", "1", "", "2")}, 9, 1, 5},
		{"a preference goes before a band", []workerv1.Ratio{ratio("side", "first", "", "0.5", ""), ratio("side", "second", "0.1", "", "9")}, 2, 2, 1},
		{"without a ratio to a targeted role the count stays", nil, 9, 9, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := with(named("first", observe.Server, 3), named("second", observe.Server, 3), named("side", observe.Encode, 3))
			s.queue("first", float64(tt.first)*10).queue("second", float64(tt.second)*10).queue("side", 9999)
			targets := &s.Scaler.Spec.Algorithm.Proportional.RoleTargets
			*targets = (*targets)[:2]
			s.Scaler.Spec.Algorithm.Proportional.Tolerance = quantityOf("0.001")
			s.Scaler.Spec.Ratios = tt.ratios
			d := Plan(s.Input)
			require.Equal(t, tt.want, d.State.role("side").Raw)
			require.Equal(t, ReasonRatioCoupled, d.Trace["side"][0].Rule)
		})
	}
}

func TestCoupledRoleInheritsWhatHoldsItsPartner(t *testing.T) {
	arrange := func() *setting {
		s := with(named("main", observe.Server, 4), named("side", observe.Encode, 4)).queue("main", 10)
		s.remembering("main", 1).remembering("side", 1)
		s.Scaler.Spec.Algorithm.Proportional.RoleTargets = s.Scaler.Spec.Algorithm.Proportional.RoleTargets[:1]
		s.Scaler.Spec.Ratios = []workerv1.Ratio{{NumeratorRole: "side", DenominatorRole: "main", Target: quantityOf("1")}}
		delete(s.Observations, "side")
		return s
	}
	t.Run("it needs no signals of its own", func(t *testing.T) {
		d := Plan(arrange().Input)
		require.Equal(t, map[string]int32{"main": 3, "side": 3}, vectorOf(d))
		require.Equal(t, "True/Observed", conditionOf(d.State, workerv1.ConditionMetricsReady))
	})
	t.Run("a partner without signals holds it", func(t *testing.T) {
		s := arrange()
		delete(s.Observations, "main")
		d := Plan(s.Input)
		require.Nil(t, d.Commit)
		require.Equal(t, int32(4), d.State.role("side").Raw)
	})
	t.Run("a partner that is seen in part lets it grow only", func(t *testing.T) {
		s := arrange().observe("main", func(o *observe.RoleObservation) { o.Coverage.Answered = 2 })
		require.Nil(t, Plan(s.Input).Commit)
		require.Equal(t, map[string]int32{"main": 6, "side": 6}, vectorOf(Plan(s.queue("main", 60).Input)))
	})
	byTokens := func() *setting {
		s := arrange()
		s.Scaler.Spec.Algorithm = tokens(observe.Server, 4, 150).Scaler.Spec.Algorithm
		s.State.Predictors = []Predictor{{Name: "main", History: demanded(150)}}
		return s.observe("main", func(o *observe.RoleObservation) {
			o.Sequence, o.Running, o.Generation, o.TTFT = 99, observe.Known(5), observe.Known(150), latencyOf(ms(100))
		})
	}
	require.Equal(t, map[string]int32{"main": 3, "side": 3}, vectorOf(Plan(byTokens().Input)))
	t.Run("a latency that holds its partner holds it", func(t *testing.T) {
		s := byTokens().observe("main", func(o *observe.RoleObservation) { o.TTFT = latencyOf(ms(510)) })
		require.Nil(t, Plan(s.Input).Commit)
	})
	t.Run("windows that are young hold it", func(t *testing.T) {
		s := byTokens()
		s.State.Predictors[0].History = s.State.Predictors[0].History[30:]
		require.Nil(t, Plan(s.Input).Commit)
	})
}

// A search over every vector of the box, by the order that D27 lists.
func bruteForce(s *search) []int32 {
	var best []int32
	counts := make([]int32, len(s.wish))
	reference := &search{links: s.links, wish: s.wish, counts: counts, best: make([]int32, len(s.wish))}
	var visit func(i int)
	visit = func(i int) {
		if i < len(counts) {
			for c := s.low[i]; c <= s.top[i]; c++ {
				counts[i] = c
				visit(i + 1)
			}
			return
		}
		if !s.legal(counts) {
			return
		}
		found := score{}
		for j, c := range counts {
			found.distance += gap(c, s.wish[j])
			found.shortage += max(0, int64(s.wish[j])-int64(c))
			found.total += int64(c)
		}
		if best == nil || exactlyBetter(reference, found) {
			reference.score = found
			copy(reference.best, counts)
			best = reference.best
		}
	}
	visit(0)
	return best
}

// exactlyBetter compares ratio distances as fractions alone.
func exactlyBetter(s *search, found score) bool {
	if found.distance != s.score.distance {
		return found.distance < s.score.distance
	}
	if order := s.ratioDistance(s.counts).Cmp(s.ratioDistance(s.best)); order != 0 {
		return order < 0
	}
	if found.shortage != s.score.shortage {
		return found.shortage < s.score.shortage
	}
	if found.total != s.score.total {
		return found.total < s.score.total
	}
	for i, c := range s.counts {
		if c != s.best[i] {
			return c < s.best[i]
		}
	}
	return false
}

// randomRatio has no limit, some or all of them, in order.
func randomRatio(t *rapid.T, numerator, denominator string) workerv1.Ratio {
	r := workerv1.Ratio{NumeratorRole: numerator, DenominatorRole: denominator}
	values := rapid.SliceOfN(rapid.SampledFrom([]string{"0.25", "0.3333333333", "0.5", "0.75", "1", "1.5", "2", "4"}), 3, 3).Draw(t, "limits")
	slices.SortFunc(values, func(a, b string) int { x, y := resource.MustParse(a), resource.MustParse(b); return x.Cmp(y) })
	if rapid.Bool().Draw(t, "min") {
		r.Min = quantityOf(values[0])
	}
	if rapid.Bool().Draw(t, "target") {
		r.Target = quantityOf(values[1])
	}
	if rapid.Bool().Draw(t, "max") {
		r.Max = quantityOf(values[2])
	}
	return r
}

func TestProjectionFindsWhatBruteForceFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 4).Draw(t, "roles")
		c := &component{}
		for i := range n {
			current := rapid.Int32Range(1, 6).Draw(t, "current")
			r := &role{count: rapid.Int32Range(1, 9).Draw(t, "wish")}
			r.Name, r.Replicas = string(rune('a'+i)), current
			r.ceil, r.floor = rapid.Int32Range(current, 6).Draw(t, "most"), rapid.Int32Range(1, current).Draw(t, "least")
			c.roles = append(c.roles, r)
		}
		var bands []band
		for i := range n {
			for j := range n {
				if j == i+1 || i != j && rapid.Bool().Draw(t, "connected") {
					bands = append(bands, bandsOf([]workerv1.Ratio{randomRatio(t, c.roles[i].Name, c.roles[j].Name)})...)
				}
			}
		}
		c.connect(bands)
		s := newSearch(c, c.upward(), planningBudget)
		want := bruteForce(newSearch(c, c.upward(), planningBudget))
		got, decided := s.run()
		require.Equal(t, want != nil, decided)
		if decided {
			require.Equal(t, want, got)
		}
	})
}

func TestProjectionOverManyWideRolesIsDecidedOrSaysSo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &component{}
		var bands []band
		for i := range 10 {
			current := rapid.Int32Range(300, 400).Draw(t, "current")
			r := &role{count: rapid.Int32Range(1, 1024).Draw(t, "wish"), floor: 1, ceil: 1024}
			r.Name, r.Replicas = string(rune('a'+i)), current
			c.roles = append(c.roles, r)
			if i > 0 {
				bands = append(bands, bandsOf([]workerv1.Ratio{{NumeratorRole: c.roles[i-1].Name, DenominatorRole: r.Name,
					Min: quantityOf("0.6"), Target: quantityOf("1"), Max: quantityOf("1.7")}})...)
			}
		}
		c.connect(bands)
		s := newSearch(c, c.upward(), planningBudget)
		counts, decided := s.run()
		if decided {
			require.True(t, s.legal(counts))
		}
	})
}

func TestUndecidedComponentHoldsAndSaysSo(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	undecided := 0
	for range 20 {
		p := &pass{}
		c := wideComponent(random)
		p.roles = c.roles
		for _, l := range c.links {
			p.bands = append(p.bands, *l.band)
		}
		p.project()
		if len(p.undecided) == 0 {
			continue
		}
		undecided++
		require.Len(t, p.undecided, len(p.roles))
		require.Equal(t, workerv1.ReasonRatioConflict, conflicting(p).reason)
		for _, r := range p.roles {
			require.Equal(t, r.Replicas, r.count)
			require.Equal(t, RuleUndecided, r.first)
		}
	}
	require.Positive(t, undecided, "none of them was hard enough")
}

// Nearer to what both recommend would be a at 2 and b at 4; but a component that goes up takes nothing from anybody.
func TestAnUpwardComponentShrinksNobody(t *testing.T) {
	s := with(named("a", observe.Server, 2), named("b", observe.Server, 6)).queue("a", 30).queue("b", 30).remembering("a", 1).remembering("b", 1)
	s.Scaler.Spec.Behavior.ScaleDown.StepPolicy = &workerv1.StepPolicy{Type: workerv1.StepPods, Value: 9}
	s.Scaler.Spec.Ratios = []workerv1.Ratio{{NumeratorRole: "a", DenominatorRole: "b", Max: quantityOf("0.5")}}
	require.Equal(t, map[string]int32{"a": 3, "b": 6}, vectorOf(Plan(s.Input)))
}

// Nearest to the recommendations would be all three at 2; but b is not seen whole, and what holds it holds its partners.
func TestARoleThatAGuardHoldsIsNotPulledDown(t *testing.T) {
	s := with(named("a", observe.Server, 4), named("b", observe.Server, 4), named("c", observe.Server, 4))
	for _, name := range []string{"a", "b", "c"} {
		s.queue(name, 20).remembering(name, 1)
	}
	s.Scaler.Spec.Behavior.ScaleDown.StepPolicy = &workerv1.StepPolicy{Type: workerv1.StepPods, Value: 9}
	for _, name := range []string{"a", "c"} {
		s.Scaler.Spec.Ratios = append(s.Scaler.Spec.Ratios, workerv1.Ratio{NumeratorRole: name, DenominatorRole: "b", Min: quantityOf("0.9"), Max: quantityOf("1.1")})
	}
	require.Equal(t, map[string]int32{"a": 2, "b": 2, "c": 2}, vectorOf(Plan(s.Input)))
	s.observe("b", func(o *observe.RoleObservation) { o.Coverage.Answered = 3 })
	require.Nil(t, Plan(s.Input).Commit)
}

func TestNearestFirstWalksOutward(t *testing.T) {
	collect := func(wish, low, top int32) (found []int32) {
		o := nearestFirst(wish, low, top)
		for v, more := o.next(); more; v, more = o.next() {
			found = append(found, v)
		}
		return found
	}
	require.Equal(t, []int32{4, 3, 5, 2, 6, 1}, collect(4, 1, 6))
	require.Equal(t, []int32{1, 2, 3}, collect(-7, 1, 3))
	require.Equal(t, []int32{3, 2, 1}, collect(9, 1, 3))
	require.Empty(t, collect(1, 3, 2))
}
