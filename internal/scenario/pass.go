package scenario

import (
	"encoding/json"
	"time"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/decide"
)

// Pass is one planning pass as it can be judged.
type Pass struct {
	At int // seconds from the start
	// Input and Decision of the plan that counted, the last one if the pass planned again.
	Input    decide.Input
	Decision decide.Decision
	// Written says that the decision reached the target.
	Written bool
	// StatusWritten says that the scaler's status was stored.
	StatusWritten bool
	// State is the memory after the pass.
	State decide.State
	// Current are the counts that the pass planned on, After those that it left.
	Current, After Vector
}

// Commit is the vector that the pass wrote; nil when it wrote none.
func (p *Pass) Commit() Vector {
	if !p.Written || p.Decision.Commit == nil {
		return nil
	}
	return p.Decision.Commit.Decision.Vector
}

// pass plans, writes, settles and stores, as the decider does.
func (r *Run) pass(at int, spoilt Event) (Pass, error) {
	p := Pass{At: at, Current: r.w.counts(), State: r.state}
	actual := r.w.snapshot()
	r.snapshots = append(r.snapshots, actual)
	if r.unsaved && spoilt.StatusWriteFails { // nothing is written to the target before the status of the last commit is (D33)
		p.Input, p.After = r.input(at, actual), p.Current
		p.Decision.State, p.Decision.Hold = r.state, "the status of the last commit could not be stored yet"
		return p, nil
	}
	if r.unsaved {
		if err := r.store(at, r.state.Status()); err != nil {
			return p, err
		}
		p.StatusWritten = true
	}
	seen := r.snapshots[max(0, len(r.snapshots)-1-spoilt.Stale)]
	outcome := r.plan(&p, r.input(at, seen), spoilt.Conflict)
	p.Written, p.After = outcome.Written, r.w.counts()
	if planned := p.Input.Target; planned != nil {
		p.Current = planned.Counts()
	}
	r.state = p.Decision.Settle(outcome)
	p.State = r.state
	r.unsaved = outcome.Written && p.Decision.Commit != nil
	next := r.state.Status()
	since := time.Duration(at-r.storedAt) * time.Second
	if !r.unsaved && !decide.NeedsWrite(r.stored[len(r.stored)-1], next, since) || spoilt.StatusWriteFails {
		return p, nil
	}
	p.StatusWritten = true
	return p, r.store(at, next)
}

// plan plans, again on a live view when the plan asks for one or the target moved under it (D34, D43), and writes.
func (r *Run) plan(p *Pass, in decide.Input, refused bool) decide.Outcome {
	for plans := 1; ; plans++ {
		p.Input, p.Decision = in, r.Plan(in)
		reread := p.Decision.Reread && !in.Live
		if !reread {
			if refused {
				return decide.Outcome{}
			}
			outcome, conflict := r.w.write(in, p.Decision)
			if !conflict || plans == maxPlans {
				return outcome
			}
		}
		in.Target, in.Live = r.w.snapshot(), true
	}
}

// store keeps the status as the API server would: through JSON.
func (r *Run) store(at int, status workerv1.ModelDeploymentScalerStatus) error {
	data, err := json.Marshal(status)
	if err != nil {
		return err
	}
	var kept workerv1.ModelDeploymentScalerStatus
	if err := json.Unmarshal(data, &kept); err != nil {
		return err
	}
	r.stored = []workerv1.ModelDeploymentScalerStatus{r.stored[len(r.stored)-1], kept}
	r.storedAt, r.unsaved = at, false
	return nil
}
