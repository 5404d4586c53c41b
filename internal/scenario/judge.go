package scenario

import (
	"fmt"
	"maps"
	"slices"
)

// Verdict is what became of one expectation.
type Verdict struct {
	Line int
	// When the expectation is about, in words.
	When  string
	Holds bool
	// Pass that failed first, as an index of the passes; -1 when it is about all of them.
	Pass int
	// Misses of that pass.
	Misses []Miss
	// More passes that failed too.
	More int
}

// Judge holds the passes of a scenario against its expectations: one verdict each, in the order of the file.
func Judge(s *Scenario, passes []Pass) []Verdict {
	verdicts := make([]Verdict, 0, len(s.Expect)+1)
	for i := range s.Expect {
		e := &s.Expect[i]
		switch {
		case len(e.Within) == 2:
			verdicts = append(verdicts, e.judgeWithin(passes))
		case len(e.During) == 2:
			verdicts = append(verdicts, e.judgeAll(passes, fmt.Sprintf("during %d to %d s", e.During[0], e.During[1]), e.During[0], e.During[1]))
		default:
			verdicts = append(verdicts, e.judgeAll(passes, fmt.Sprintf("at %d s", *e.At), *e.At, *e.At))
		}
	}
	return append(verdicts, s.judgeAlways(passes)...)
}

// judgeAll wants every pass of a stretch to hold.
func (e *Expectation) judgeAll(passes []Pass, when string, from, to int) Verdict {
	v := Verdict{Line: e.node.Line, When: when, Holds: true, Pass: -1}
	for i := range passes {
		if p := &passes[i]; p.At >= from && p.At <= to {
			v.add(i, e.misses(p))
		}
	}
	return v
}

func (v *Verdict) add(pass int, misses []Miss) {
	switch {
	case len(misses) == 0:
	case v.Holds:
		v.Holds, v.Pass, v.Misses = false, pass, misses
	default:
		v.More++
	}
}

// judgeWithin wants some pass of a stretch to hold, and none before it. The pass that came nearest is told.
func (e *Expectation) judgeWithin(passes []Pass) Verdict {
	from, to := e.Within[0], e.Within[1]
	v := Verdict{Line: e.node.Line, When: fmt.Sprintf("within %d to %d s", from, to), Pass: -1}
	for i := range passes {
		p := &passes[i]
		if p.At > to {
			break
		}
		missed := e.misses(p)
		switch {
		case len(missed) == 0 && p.At < from:
			v.Pass = i
			v.Misses = []Miss{{e.node.Line, "within", fmt.Sprintf("not before %d s", from), fmt.Sprintf("all of it at %d s", p.At)}}
			return v
		case len(missed) == 0:
			v.Holds, v.Misses, v.Pass = true, nil, -1
			return v
		case p.At >= from && (v.Misses == nil || len(missed) < len(v.Misses)):
			v.Pass, v.Misses = i, missed
		}
	}
	return v
}

// judgeAlways is about all passes.
func (s *Scenario) judgeAlways(passes []Pass) (verdicts []Verdict) {
	m := &misses{node: s.at("always")}
	if most := s.Always.MaxCommits; most != nil {
		commits := 0
		for i := range passes {
			if passes[i].Commit() != nil {
				commits++
			}
		}
		m.check(commits <= *most, fmt.Sprintf("at most %d", *most), commits, "maxCommits")
		verdicts = append(verdicts, Verdict{Line: descend(m.node, "maxCommits").Line, When: "always", Pass: -1, Holds: len(m.found) == 0, Misses: m.found})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Always.Roles)) {
		allowed := s.Always.Roles[name]
		v := Verdict{Line: descend(m.node, "roles", name).Line, When: "always", Holds: true, Pass: -1}
		for i := range passes {
			m := &misses{node: m.node}
			m.check(allowed.allows(passes[i].After[name]), &allowed, passes[i].After[name], "roles", name)
			v.add(i, m.found)
		}
		verdicts = append(verdicts, v)
	}
	return verdicts
}
