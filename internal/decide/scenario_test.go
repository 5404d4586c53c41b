package decide

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
)

// played is one pass of a scenario as it can be judged.
type played struct {
	at       int
	current  map[string]int32 // planned on
	after    map[string]int32 // after the pass
	decision Decision
	state    State
	wrote    bool // the status
	commit   map[string]int32
}

// runner is a decider without a cluster: gather, plan, write, settle, store.
type runner struct {
	s          *scenario
	w          *world
	fields     map[string]any
	generation int64
	state      State
	stored     []workerv1.ModelDeploymentScalerStatus // every version of the status
	storedAt   float64
	clock      time.Duration // what the wall clock is off, noticed at restarts
	offset     time.Duration
	leader     int64
}

func play(s *scenario) ([]played, error) {
	r := &runner{s: s, w: newWorld(s), fields: s.Scaler, generation: 1, leader: 1,
		stored: []workerv1.ModelDeploymentScalerStatus{s.Status}}
	r.state = StateFromStatus(s.Status)
	every := s.Every
	if every == 0 {
		spec, err := specOf(s.Scaler)
		if err != nil {
			return nil, err
		}
		if every = int(spec.Sampling.IntervalSeconds); every == 0 {
			every = 15
		}
	}
	var passes []played
	next := 0
	for at := 0; at <= s.last(); at += every {
		refused := false
		r.w.advance(float64(at))
		for ; next < len(s.Timeline) && s.Timeline[next].At <= at; next++ {
			e := s.Timeline[next]
			if err := r.apply(e); err != nil {
				return nil, fmt.Errorf("event at %d: %w", e.At, err)
			}
			refused = refused || e.Conflict
		}
		r.w.advance(float64(at))
		p, err := r.pass(at, float64(every), refused)
		if err != nil {
			return nil, err
		}
		passes = append(passes, p)
	}
	return passes, nil
}

func (r *runner) apply(e event) error {
	if e.Scaler != nil {
		merge(r.fields, e.Scaler)
		r.generation++
	}
	r.clock += time.Duration(e.Clock * float64(time.Second))
	if e.RestartLost && len(r.stored) > 1 {
		r.stored = r.stored[:len(r.stored)-1]
	}
	if e.Restart || e.RestartLost {
		r.state = StateFromStatus(r.stored[len(r.stored)-1])
		r.offset = r.clock
		r.leader++
	}
	return r.w.apply(e)
}

func (r *runner) pass(at int, every float64, refused bool) (played, error) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if r.s.Start != nil {
		start = *r.s.Start
	}
	spec, err := specOf(r.fields)
	if err != nil {
		return played{}, err
	}
	in := Input{
		Now:          start.Add(time.Duration(at)*time.Second + r.offset),
		Epoch:        fence.Epoch{LeaseUID: "12345678-lease", Transitions: r.leader},
		Scaler:       Scaler{Namespace: "default", Name: "llm", UID: "scaler-1", Generation: r.generation, Spec: spec},
		Target:       r.w.snapshot(),
		Observations: r.w.observations(every),
		State:        r.state,
	}
	d := Plan(in)
	if d.Reread {
		in.Live = true
		d = Plan(in)
	}
	p := played{at: at, decision: d, current: map[string]int32{}, after: map[string]int32{}}
	for _, role := range r.w.roles {
		p.current[role.Name] = role.Replicas
	}
	outcome := r.w.write(d, refused)
	outcome.At = in.Now
	if outcome.Written && d.Commit != nil {
		p.commit = d.Commit.Decision.Vector
	}
	r.state = d.Settle(outcome)
	p.state = r.state
	for _, role := range r.w.roles {
		p.after[role.Name] = role.Replicas
	}
	p.wrote, err = r.store(float64(at))
	return p, err
}

// store writes the status through JSON, as the API server would keep it.
func (r *runner) store(at float64) (bool, error) {
	next := r.state.Status()
	since := time.Duration((at - r.storedAt) * float64(time.Second))
	if !NeedsWrite(r.stored[len(r.stored)-1], next, since) {
		return false, nil
	}
	data, err := json.Marshal(next)
	if err != nil {
		return false, err
	}
	var kept workerv1.ModelDeploymentScalerStatus
	if err := json.Unmarshal(data, &kept); err != nil {
		return false, err
	}
	r.stored = append(r.stored, kept)
	r.storedAt = at
	return true, nil
}

// judge says what of an expectation a pass misses.
func (e *expectation) judge(p *played) []string {
	var misses []string
	miss := func(format string, args ...any) { misses = append(misses, fmt.Sprintf(format, args...)) }
	for name, want := range e.Roles {
		got := p.state.role(name)
		if got == nil {
			miss("role %s is unknown", name)
			continue
		}
		for _, n := range []struct {
			what string
			want *countRange
			got  int32
		}{{"current", want.Current, p.current[name]}, {"ready", want.Ready, got.Ready}, {"raw", want.Raw, got.Raw}, {"constrained", want.Constrained, got.Constrained}} {
			if n.want != nil && !n.want.holds(n.got) {
				miss("%s.%s is %d", name, n.what, n.got)
			}
		}
		if want.Reason != nil && !contains(*want.Reason, got.Reason) {
			miss("%s.reason is %s", name, got.Reason)
		}
		if want.State != nil && !contains(*want.State, string(got.Signal)) {
			miss("%s.state is %s", name, got.Signal)
		}
	}
	if e.Commit != nil && !sameVector(*e.Commit, p.commit) {
		miss("commit is %v", p.commit)
	}
	for kind, want := range e.Conditions {
		got := "absent"
		if c := findCondition(p.state.Conditions, kind); c != nil {
			got = string(c.Status) + "/" + c.Reason
		}
		if got != want {
			miss("condition %s is %s", kind, got)
		}
	}
	if e.Pending != nil {
		got := pendingOrNone{}
		if c := p.state.PendingCohort; c != nil {
			got = pendingOrNone{c.BaselineVector, c.TargetVector}
		}
		if !sameVector(e.Pending.Baseline, got.Baseline) || !sameVector(e.Pending.Target, got.Target) {
			miss("pending is %v", got)
		}
	}
	if e.Rebalance != nil {
		got := rebalanceOrNone{}
		if b := p.state.Rebalance; b != nil {
			got = rebalanceOrNone{b.Reason, b.DonorRole, b.ReceiverRole}
		}
		if got != *e.Rebalance {
			miss("rebalance is %v", got)
		}
	}
	if e.LastScaleDown != nil {
		got := scaleDownFile{}
		if s := p.state.LastScaleDown; s != nil {
			got = scaleDownFile{s.Role, s.Ordinal, string(s.Outcome)}
		}
		if got != *e.LastScaleDown {
			miss("lastScaleDown is %v", got)
		}
	}
	for role, want := range e.Predictor {
		got := p.state.predictor(role)
		if got == nil {
			miss("%s has no predictor", role)
			continue
		}
		if want.Level != nil && !near(*want.Level, got.Level, want.Tolerance) {
			miss("%s.level is %.12g", role, got.Level)
		}
		if want.Trend != nil && !near(*want.Trend, got.Trend, want.Tolerance) {
			miss("%s.trend is %.12g", role, got.Trend)
		}
		if want.SampleCount != nil && *want.SampleCount != got.Samples {
			miss("%s.sampleCount is %d", role, got.Samples)
		}
	}
	if e.StatusWrite != nil && *e.StatusWrite != p.wrote {
		miss("statusWrite is %t", p.wrote)
	}
	return misses
}

func near(want, got, tolerance float64) bool {
	if tolerance == 0 {
		tolerance = max(1e-9, 1e-6*math.Abs(want))
	}
	return math.Abs(want-got) <= tolerance
}

func contains(allowed []string, got string) bool {
	for _, a := range allowed {
		if a == got {
			return true
		}
	}
	return false
}

func sameVector(want, got map[string]int32) bool {
	if len(want) != len(got) {
		return false
	}
	for name, count := range want {
		if is, known := got[name]; !known || is != count {
			return false
		}
	}
	return true
}

// check returns what a run misses of the scenario.
func (s *scenario) check(passes []played) []string {
	var misses []string
	for i := range s.Expect {
		e := &s.Expect[i]
		found, matched := false, false
		for j := range passes {
			p := &passes[j]
			switch {
			case e.At != nil && *e.At == p.at, len(e.During) == 2 && p.at >= e.During[0] && p.at <= e.During[1]:
				found = true
				for _, m := range e.judge(p) {
					misses = append(misses, fmt.Sprintf("at %d: %s %s", p.at, m, traceOf(p)))
				}
			case len(e.Within) == 2 && p.at <= e.Within[1] && !matched:
				if matched = len(e.judge(p)) == 0; matched && p.at < e.Within[0] {
					misses = append(misses, fmt.Sprintf("at %d: what was expected within %v comes too early", p.at, e.Within))
				}
				found = true
			}
		}
		if !found || len(e.Within) == 2 && !matched {
			misses = append(misses, fmt.Sprintf("expectation %d (within %v) never came true", i, e.Within))
		}
	}
	commits := 0
	for i := range passes {
		if passes[i].commit != nil {
			commits++
		}
		for name, bounds := range s.Always.Roles {
			if !bounds.holds(passes[i].after[name]) {
				misses = append(misses, fmt.Sprintf("at %d: %s is %d", passes[i].at, name, passes[i].after[name]))
			}
		}
	}
	if s.Always.MaxCommits != nil && commits > *s.Always.MaxCommits {
		misses = append(misses, fmt.Sprintf("%d commits", commits))
	}
	return misses
}

func traceOf(p *played) string {
	return fmt.Sprintf("(hold %q, trace %v)", p.decision.Hold, p.decision.Trace)
}

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			s, err := readScenario(file)
			require.NoError(t, err)
			passes, err := play(s)
			require.NoError(t, err)
			misses := s.check(passes)
			if len(misses) > 6 {
				misses = misses[:6]
			}
			require.Empty(t, misses)
		})
	}
}
