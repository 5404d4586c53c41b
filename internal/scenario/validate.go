package scenario

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gpustack.ai/model-deployment-scaler/internal/target"
)

// finished is the word for a retirement that is over; the protocol itself stores none.
const finished = "Finished"

// Limits of what a file may ask for: a typing mistake must not fill the memory.
const (
	mostReplicas = 1024 // spec "Bounds and ratios"
	mostPasses   = 100_000
	latest       = 1_000_000_000 // seconds
)

var retirementStates = []string{finished, string(target.RetirementAdmitted), string(target.RetirementDisqualified),
	string(target.RetirementWithdrawing), string(target.RetirementDraining), string(target.RetirementDeleting),
	string(target.RetirementSettling), string(target.RetirementAborted)}

// validate finds what could never be played or judged: a typing mistake must not look like a passed test.
func (s *Scenario) validate() (errs []error) {
	check := func(right bool, line int, format string, args ...any) {
		if !right {
			errs = append(errs, s.fail(line, format, args...))
		}
	}
	check(s.Name != "", s.at("name").Line, "name is missing")
	check(len(s.Scaler) > 0, s.at("scaler").Line, "scaler is missing")
	check(len(s.Target.Roles) > 0, s.at("target").Line, "target.roles is missing")
	checkTarget(&s.Target, s.at("target").Line, check)
	check(s.Every > 0 && s.Every <= latest, s.at("every").Line, "every must be 1 to %d", latest)
	check(s.Until == nil || *s.Until >= 0 && *s.Until <= latest, s.at("until").Line, "until must be 0 to %d", latest)
	if len(errs) > 0 {
		return errs
	}
	check(s.last()/s.Every < mostPasses, s.at("until").Line, "the last pass at %d would be one of more than %d", s.last(), mostPasses)
	for i := range s.Timeline {
		s.validateEvent(&s.Timeline[i], check)
	}
	for i := range s.Expect {
		s.validateExpectation(&s.Expect[i], check)
	}
	for role := range s.Always.Roles {
		check(s.knows(role), s.at("always", "roles", role).Line, "%s", s.noRole(role))
	}
	return errs
}

// checker records a mistake unless it is right.
type checker func(right bool, line int, format string, args ...any)

func (s *Scenario) validateEvent(e *Event, check checker) {
	check(e.At >= 0 && e.At <= latest, e.line, "at must be 0 to %d", latest)
	check(s.Until == nil || e.At <= *s.Until, e.line, "the event at %d comes after the last pass at %d", e.At, s.last())
	for role := range e.Observe {
		check(s.knows(role), e.line, "%s", s.noRole(role))
	}
	for _, name := range slices.Concat(e.Admit, e.Evict, e.WorkloadGone) {
		role, _, err := splitOrdinal(name)
		check(err == nil && s.knows(role), e.line, "%q is not an instance, as role/ordinal", name)
	}
	if e.TargetRecreated != nil {
		checkTarget(e.TargetRecreated, e.line, check)
	}
	if r := e.Retirement; r != nil {
		check(s.knows(r.Role), e.line, "%s", s.noRole(r.Role))
		check(slices.Contains(retirementStates, r.State), e.line, "%q is not one of %s", r.State, strings.Join(retirementStates, ", "))
	}
}

func (s *Scenario) validateExpectation(e *Expectation, check checker) {
	line, stretch := e.node.Line, slices.Concat(e.Within, e.During)
	if e.At != nil {
		stretch = append(stretch, *e.At, *e.At)
	}
	if len(stretch) != 2 {
		check(false, line, "give one of at: T, within: [FROM, TO] and during: [FROM, TO]")
		return
	}
	from, to := stretch[0], stretch[1]
	check(from >= 0 && from <= to && to <= latest && s.passesIn(from, to), line, "there is no pass in %d to %d: passes are every %d s from 0 to %d", from, to, s.Every, s.last())
	empty := Expectation{At: e.At, Within: e.Within, During: e.During, node: e.node}
	check(!reflect.DeepEqual(*e, empty), line, "nothing is expected")
	for role := range e.Roles {
		check(s.knows(role), descend(e.node, "roles", role).Line, "%s", s.noRole(role))
	}
	for role := range e.Predictor {
		check(s.knows(role), descend(e.node, "predictor", role).Line, "%s", s.noRole(role))
	}
	if e.Commit != nil {
		for role := range *e.Commit {
			check(s.knows(role), descend(e.node, "commit", role).Line, "%s", s.noRole(role))
		}
	}
}

// checkTarget is about what every version of a target must be.
func checkTarget(t *Target, line int, check checker) {
	seen := map[string]bool{}
	for _, r := range t.Roles {
		check(r.Name != "" && !seen[r.Name], line, "every role of a target needs a name of its own, not %q", r.Name)
		check(r.Replicas >= 0 && r.Replicas <= mostReplicas, line, "role %s: replicas must be 0 to %d", r.Name, mostReplicas)
		seen[r.Name] = true
	}
}

// passesIn says that some pass falls into a stretch.
func (s *Scenario) passesIn(from, to int) bool {
	first := (max(from, 0) + s.Every - 1) / s.Every * s.Every
	return first <= min(to, s.last())
}

// last is the time of the last pass at the latest. An event between two passes needs one after it.
func (s *Scenario) last() int {
	if s.Until != nil {
		return *s.Until
	}
	last := 0
	for i := range s.Timeline {
		last = max(last, s.Timeline[i].At)
	}
	for i := range s.Expect {
		e := &s.Expect[i]
		for _, at := range slices.Concat(e.Within, e.During) {
			last = max(last, at)
		}
		if e.At != nil {
			last = max(last, *e.At)
		}
	}
	last = min(last, latest)
	return (last + s.Every - 1) / s.Every * s.Every
}

// knows says that the target has a role of that name at some time.
func (s *Scenario) knows(name string) bool { return slices.Contains(s.roleNames(), name) }

func (s *Scenario) noRole(name string) string {
	return fmt.Sprintf("%q is no role of the target: it has %s", name, strings.Join(s.roleNames(), ", "))
}

func (s *Scenario) roleNames() (names []string) {
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, r := range s.Target.Roles {
		add(r.Name)
	}
	for i := range s.Timeline {
		e := &s.Timeline[i]
		if e.TargetRecreated != nil {
			for _, r := range e.TargetRecreated.Roles {
				add(r.Name)
			}
		}
		patched, _ := e.Target["roles"].([]any)
		for _, p := range patched {
			if fields, isMap := p.(map[string]any); isMap {
				add(fmt.Sprint(fields["name"]))
			}
		}
	}
	return names
}

func splitOrdinal(name string) (role string, ordinal int, err error) {
	role, number, _ := strings.Cut(name, "/")
	ordinal, err = strconv.Atoi(number)
	return role, ordinal, err
}
