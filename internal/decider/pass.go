package decider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/decide"
	"gpustack.ai/model-deployment-scaler/internal/kube"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

const (
	// maxTries is how often one pass writes when its target moves under it (D34).
	maxTries = 3
	// slowestInterval is the longest that the API allows.
	slowestInterval = 300 * time.Second
)

// view is what one pass works with.
type view struct {
	name   types.NamespacedName
	scaler *workerv1.ModelDeploymentScaler
	memory *memory
	in     decide.Input
}

// pass plans one scaler: gather, plan, commit, report. What is written was planned on a live view: a watch may be silent for
// minutes, and a scaler that was suspended meanwhile must not move its target. It plans again when the target moved before the
// write arrived (D34). It returns the scaler's interval; zero when the scaler is gone.
func (l *leader) pass(ctx context.Context, name types.NamespacedName) (time.Duration, error) {
	live := false
	for tries := 1; ; {
		v, err := l.gather(ctx, name, live)
		if v == nil || err != nil {
			return 0, err
		}
		if v.memory.unsaved { // nothing is written before this is, and nothing planned twice on one observation (D33)
			return interval(&v.in.Scaler.Spec), l.save(ctx, v.memory, v.scaler, v.in.State.Status())
		}
		d := decide.Plan(v.in)
		if needsLive := d.Reread || d.Commit != nil || d.Bind != nil; needsLive && !live {
			live = true
			continue
		}
		outcome, err := l.commit(ctx, v, d)
		if kube.Outdated(err) && tries < maxTries {
			tries++
			live = true
			continue
		}
		return interval(&v.in.Scaler.Spec), errors.Join(err, l.report(ctx, v, d, outcome, err))
	}
}

// gather makes the view of one pass; nil when the scaler is gone, which forgets it. Deletions are always planned on a live
// view: a binding that the cache does not show yet must not be orphaned.
func (l *leader) gather(ctx context.Context, name types.NamespacedName, live bool) (*view, error) {
	scaler, err := l.cached(name)
	if err != nil {
		return nil, err
	}
	if scaler == nil {
		l.forget(name)
		return nil, nil
	}
	live = live || scaler.DeletionTimestamp != nil
	if live {
		if scaler, err = l.cache.ScalerLive(ctx, name); scaler == nil {
			return nil, err
		}
	}
	m := l.memories.of(name, scaler)
	if live && !m.planned {
		m.restore(scaler)
	}
	if live {
		m.latest = nil // nothing is newer than a live read, not even what we wrote before a restored backup
	}
	snapshot, err := l.snapshot(ctx, targetOf(scaler), live)
	if err != nil {
		return nil, err
	}
	in := l.input(scaler, snapshot, m.state.State(), live)
	if !m.planned {
		in.State = l.rebuild(in)
	}
	return &view{name: name, scaler: scaler, memory: m, in: in}, nil
}

// cached is the scaler in view, with its histories where its memory is to begin with them.
func (l *leader) cached(name types.NamespacedName) (*workerv1.ModelDeploymentScaler, error) {
	s := l.cache.Scaler(name)
	if s != nil && !l.memories.has(name, s.UID) {
		return l.cache.WholeScaler(name)
	}
	return s, nil
}

func (l *leader) snapshot(ctx context.Context, on types.NamespacedName, live bool) (*target.Snapshot, error) {
	if live {
		return l.cache.SnapshotLive(ctx, on)
	}
	return l.cache.Snapshot(on)
}

// input puts together what the planner may know.
func (l *leader) input(scaler *workerv1.ModelDeploymentScaler, snapshot *target.Snapshot, state decide.State, live bool) decide.Input {
	in := decide.Input{
		Now:   l.clock.now(),
		Live:  live,
		Epoch: l.epoch,
		Scaler: decide.Scaler{
			Namespace: scaler.Namespace, Name: scaler.Name, UID: string(scaler.UID), Generation: scaler.Generation,
			Deleting: scaler.DeletionTimestamp != nil, Spec: *scaler.Spec.DeepCopy(),
		},
		Target: snapshot,
		State:  state,
	}
	workerv1.Default(&in.Scaler.Spec)
	if snapshot != nil {
		in.Observations = l.readings.of(snapshot, time.Now())
	}
	return in
}

// rebuild makes windows and histories of what the samplers replay, once for each scaler that an earlier leader planned (D55).
func (l *leader) rebuild(in decide.Input) decide.State {
	if in.Target == nil {
		return in.State
	}
	past, done := l.readings.pastOf(in.Target, time.Now())
	defer done()
	if len(past) == 0 {
		return in.State
	}
	return decide.Rebuild(in, past)
}

// commit writes what the plan asks for: at most one write to the target. An orderly shutdown ends planning here; a write
// that has begun is finished.
func (l *leader) commit(ctx context.Context, v *view, d decide.Decision) (decide.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return decide.Outcome{}, err
	}
	if err := l.guard(ctx, v, d); err != nil {
		return decide.Outcome{}, err
	}
	change, any := changeOf(d)
	if !any {
		return decide.Outcome{}, nil
	}
	generation, err := l.writer.Commit(ctx, v.in.Target.Deployment, change)
	if err != nil {
		return decide.Outcome{}, err
	}
	return decide.Outcome{Written: true, Generation: generation, At: l.clock.now()}, nil
}

// guard makes the scaler wait for the release of its binding when it is deleted (D46): before it binds, and again when
// somebody has replaced the object without the finalizer since.
func (l *leader) guard(ctx context.Context, v *view, d decide.Decision) error {
	binds := d.Bind != nil || meta.IsStatusConditionTrue(d.State.Conditions, workerv1.ConditionActive)
	if !binds || v.in.Scaler.Deleting {
		return nil
	}
	guarded, err := l.writer.AddFinalizer(ctx, v.memory.newest(v.scaler))
	if err != nil {
		return fmt.Errorf("guarding the binding: %w", err)
	}
	if guarded != nil {
		v.memory.wrote(guarded)
	}
	return nil
}

// changeOf is the write that a decision asks for.
func changeOf(d decide.Decision) (change kube.Change, any bool) {
	change = kube.Change{Bind: d.Bind, Release: d.Release}
	if d.Commit != nil {
		change.Decision = &d.Commit.Decision
	}
	return change, d.Bind != nil || d.Release || d.Commit != nil
}

// interval of a policy. The schema's default has filled it in; a spec that never met the schema is read as slow as allowed.
func interval(spec *workerv1.ModelDeploymentScalerSpec) time.Duration {
	if spec.Sampling.IntervalSeconds <= 0 {
		return slowestInterval
	}
	return time.Duration(spec.Sampling.IntervalSeconds) * time.Second
}
