package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/decide"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// deployment is the name of the target and of its scaler, ScalerUID the scaler's identity: what an event `binding` speaks of.
const (
	deployment = "llm"
	ScalerUID  = "scaler-1"
)

// maxPlans is how often one pass plans when its target moves under it (D34).
const maxPlans = 3

// Setup is what a run begins with.
type Setup struct {
	Spec   workerv1.ModelDeploymentScalerSpec // with defaults
	Status workerv1.ModelDeploymentScalerStatus
	Target Target
	World  World
	Start  time.Time
	Every  int // seconds between passes
}

// Run is a decider without a cluster: gather, plan, write, settle, store, pass by pass.
type Run struct {
	// Plan is decide.Plan; a test may look over its shoulder.
	Plan func(decide.Input) decide.Decision

	setup      Setup
	w          *world
	fields     map[string]any // the spec as written; nil until a patch needs it
	spec       workerv1.ModelDeploymentScalerSpec
	generation int64
	state      decide.State
	stored     []workerv1.ModelDeploymentScalerStatus // the latest two versions of the status, newest last
	storedAt   int
	unsaved    bool // the status of the last commit is not stored (D33)
	clock      time.Duration
	offset     time.Duration      // of the clock, as the running leader knows it
	leader     int64              // its lease transitions
	snapshots  []*target.Snapshot // what each pass saw first
}

// NewRun begins a run.
func NewRun(s Setup) *Run {
	return &Run{Plan: decide.Plan, setup: s, w: newWorld(s.World, s.Target), spec: s.Spec, generation: 1, leader: 1,
		stored: []workerv1.ModelDeploymentScalerStatus{s.Status}, state: decide.StateFromStatus(s.Status)}
}

// Play runs a scenario to its end.
func Play(s *Scenario) ([]Pass, error) {
	r := NewRun(Setup{Spec: *s.spec.DeepCopy(), Status: s.status, Target: s.Target, World: s.World, Start: s.Start, Every: s.Every})
	r.fields = map[string]any{}
	merge(r.fields, s.Scaler)
	var passes []Pass
	next := 0
	for at := 0; at <= s.last(); at += s.Every {
		from := next
		for next < len(s.Timeline) && s.Timeline[next].At <= at {
			next++
		}
		p, err := r.Step(at, s.Timeline[from:next]...)
		if err != nil {
			var wrong *eventError
			if errors.As(err, &wrong) {
				return nil, s.fail(wrong.line, "event at %d: %v", wrong.at, wrong.error)
			}
			return nil, fmt.Errorf("%s: %w", s.file, err)
		}
		passes = append(passes, p)
	}
	return passes, nil
}

// eventError is an event that could not be played.
type eventError struct {
	error
	at, line int
}

func (e *eventError) Unwrap() error { return e.error }

// Edit replaces the scaler's spec, as a user does.
func (r *Run) Edit(spec workerv1.ModelDeploymentScalerSpec) {
	r.spec, r.fields = spec, nil
	r.generation++
}

// State is the decider's memory.
func (r *Run) State() decide.State { return r.state }

// Step lets time pass until at, in seconds, plays the events, and makes one pass.
func (r *Run) Step(at int, events ...Event) (Pass, error) {
	r.w.advance(float64(at))
	var spoilt Event
	for i := range events {
		e := &events[i]
		if err := r.apply(e); err != nil {
			return Pass{}, &eventError{err, e.At, e.line}
		}
		spoilt.Conflict = spoilt.Conflict || e.Conflict
		spoilt.StatusWriteFails = spoilt.StatusWriteFails || e.StatusWriteFails
		spoilt.Stale = max(spoilt.Stale, e.Stale)
	}
	r.w.advance(float64(at))
	return r.pass(at, spoilt)
}

// apply plays an event on the decider, and on the world.
func (r *Run) apply(e *Event) error {
	if e.Scaler != nil {
		if err := r.patch(e.Scaler); err != nil {
			return fmt.Errorf("patching the scaler: %w", err)
		}
	}
	r.clock += time.Duration(e.Clock * float64(time.Second))
	if n := len(r.stored); e.RestartLost && n > 1 {
		r.stored = r.stored[:n-1]
	}
	if e.Restart || e.RestartLost {
		r.state, r.unsaved = decide.StateFromStatus(r.stored[len(r.stored)-1]), false
		r.offset = r.clock
		r.leader++
	}
	return r.w.apply(e)
}

// patch merges into the spec as written and defaults the result.
func (r *Run) patch(patch map[string]any) error {
	if r.fields == nil {
		data, err := json.Marshal(r.spec)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(data, &r.fields); err != nil {
			return err
		}
	}
	merge(r.fields, patch)
	spec, errs := specOf(r.fields)
	r.spec = spec
	r.generation++
	return errors.Join(errs...)
}

// input is what the decider gathers.
func (r *Run) input(at int, s *target.Snapshot) decide.Input {
	return decide.Input{
		Now:          r.setup.Start.Add(time.Duration(at)*time.Second + r.offset),
		Epoch:        fence.Epoch{LeaseUID: "12345678-lease", Transitions: r.leader},
		Scaler:       decide.Scaler{Namespace: "default", Name: deployment, UID: ScalerUID, Generation: r.generation, Spec: r.spec},
		Target:       s,
		Observations: r.w.observations(float64(r.setup.Every)),
		State:        r.state,
	}
}
