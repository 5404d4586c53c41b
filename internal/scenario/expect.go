package scenario

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"gpustack.ai/model-deployment-scaler/internal/decide"
)

// Miss is one field of an expectation that a pass did not meet.
type Miss struct {
	Line     int    `json:"line"`
	Field    string `json:"field"`
	Expected string `json:"expected"`
	Got      string `json:"got"`
}

func (m Miss) String() string {
	return fmt.Sprintf("%s: expected %s, got %s", m.Field, m.Expected, m.Got)
}

// misses collects what a pass does not meet.
type misses struct {
	node  *yaml.Node
	found []Miss
}

// check adds a miss unless the field is as expected.
func (m *misses) check(holds bool, expected, got any, path ...any) {
	if holds {
		return
	}
	field := ""
	for _, step := range path {
		if field != "" {
			field += "."
		}
		field += fmt.Sprint(step)
	}
	m.found = append(m.found, Miss{descend(m.node, path...).Line, field, fmt.Sprint(expected), fmt.Sprint(got)})
}

// misses of a pass, in the order of the format.
func (e *Expectation) misses(p *Pass) []Miss {
	m := &misses{node: e.node}
	for _, name := range slices.Sorted(maps.Keys(e.Roles)) {
		e.Roles[name].check(m, p, name)
	}
	if e.Commit != nil {
		m.check(maps.Equal(*e.Commit, p.Commit()), *e.Commit, p.Commit(), "commit")
	}
	for _, kind := range slices.Sorted(maps.Keys(e.Conditions)) {
		got := conditionOf(p.State, kind)
		m.check(got == e.Conditions[kind], e.Conditions[kind], got, "conditions", kind)
	}
	e.checkRecords(m, p.State)
	for _, role := range slices.Sorted(maps.Keys(e.Predictor)) {
		e.Predictor[role].check(m, p.State, role)
	}
	if e.StatusWrite != nil {
		m.check(*e.StatusWrite == p.StatusWritten, *e.StatusWrite, p.StatusWritten, "statusWrite")
	}
	return m.found
}

func (want RoleExpectation) check(m *misses, p *Pass, name string) {
	at := slices.IndexFunc(p.State.Roles, func(r decide.RoleState) bool { return r.Name == name })
	if at < 0 {
		m.check(false, "known", "never observed", "roles", name)
		return
	}
	got := &p.State.Roles[at]
	for _, count := range []struct {
		field string
		want  *Range
		got   int32
	}{
		{"current", want.Current, p.Current[name]},
		{"ready", want.Ready, got.Ready},
		{"raw", want.Raw, got.Raw},
		{"constrained", want.Constrained, got.Constrained},
	} {
		m.check(count.want == nil || count.want.allows(count.got), count.want, count.got, "roles", name, count.field)
	}
	m.check(len(want.Reason) == 0 || slices.Contains(want.Reason, got.Reason), want.Reason, got.Reason, "roles", name, "reason")
	m.check(len(want.State) == 0 || slices.Contains(want.State, string(got.Signal)), want.State, got.Signal, "roles", name, "state")
}

// checkRecords is about the recovery records.
func (e *Expectation) checkRecords(m *misses, s decide.State) {
	if want := e.Pending; want != nil {
		var got Pending
		if c := s.PendingCohort; c != nil {
			got = Pending{Vector(c.BaselineVector), Vector(c.TargetVector)}
		}
		m.check(maps.Equal(want.Baseline, got.Baseline) && maps.Equal(want.Target, got.Target), want, got, "pending")
	}
	if want := e.Rebalance; want != nil {
		var got Rebalance
		if b := s.Rebalance; b != nil {
			got = Rebalance{b.Reason, b.DonorRole, b.ReceiverRole}
		}
		holds := unset(want.Reason, got.Reason) && unset(want.Donor, got.Donor) && unset(want.Receiver, got.Receiver)
		if *want == (Rebalance{}) {
			holds = got == Rebalance{}
		}
		m.check(holds, want, got, "rebalance")
	}
	if want := e.LastScaleDown; want != nil {
		var got ScaleDown
		if d := s.LastScaleDown; d != nil {
			got = ScaleDown{d.Role, &d.Ordinal, string(d.Outcome)}
		}
		holds := unset(want.Role, got.Role) && unset(want.Outcome, got.Outcome) &&
			(want.Ordinal == nil || got.Ordinal != nil && *want.Ordinal == *got.Ordinal)
		m.check(holds, want, got, "lastScaleDown")
	}
}

// unset also says that there is nothing to compare.
func unset(want, got string) bool { return want == "" || want == got }

func (d ScaleDown) String() string {
	ordinal := "?"
	if d.Ordinal != nil {
		ordinal = strconv.Itoa(int(*d.Ordinal))
	}
	return fmt.Sprintf("%s/%s %s", d.Role, ordinal, d.Outcome)
}

func (want PredictorExpectation) check(m *misses, s decide.State, role string) {
	at := slices.IndexFunc(s.Predictors, func(p decide.Predictor) bool { return p.Name == role })
	if at < 0 {
		m.check(false, "a filter", none, "predictor", role)
		return
	}
	got := &s.Predictors[at]
	if want.Level != nil {
		m.check(near(*want.Level, got.Level, want.Tolerance), *want.Level, got.Level, "predictor", role, "level")
	}
	if want.Trend != nil {
		m.check(near(*want.Trend, got.Trend, want.Tolerance), *want.Trend, got.Trend, "predictor", role, "trend")
	}
	if want.SampleCount != nil {
		m.check(*want.SampleCount == got.Samples, *want.SampleCount, got.Samples, "predictor", role, "sampleCount")
	}
}

func near(want, got, tolerance float64) bool {
	if tolerance == 0 {
		tolerance = max(1e-9, 1e-6*math.Abs(want))
	}
	return math.Abs(want-got) <= tolerance
}

func conditionOf(s decide.State, kind string) string {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return string(c.Status) + "/" + c.Reason
		}
	}
	return "absent"
}
