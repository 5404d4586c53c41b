package decide_test

import (
	"flag"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"pgregory.net/rapid"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/decide"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/scenario"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

var wantedPasses = flag.Int("passes", 5_000, "random passes to plan at least; make soak plans 1,000,000")

// Random policies, observations and events, pass after pass, in the world of the scenarios. Every decision keeps the promises
// that hold whatever happens. What fails is shrunk by rapid and repeated from testdata/rapid.
func TestRandomRunsKeepEveryPromise(t *testing.T) {
	var planned atomic.Int64
	for planned.Load() < int64(*wantedPasses) && !t.Failed() {
		rapid.Check(t, func(t *rapid.T) {
			run := newRandomRun(t)
			for range rapid.IntRange(1, 120).Draw(t, "passes") {
				run.pass(t)
				planned.Add(1)
			}
		})
	}
	t.Logf("planned %d random passes", planned.Load())
}

// randomRun is a run whose events are made up as it goes.
type randomRun struct {
	run       *scenario.Run
	at        int
	every     int
	spec      workerv1.ModelDeploymentScalerSpec
	readings  map[string]scenario.Reading
	last      scenario.Pass // zero before the first
	disturbed bool          // by somebody's annotation or a new target
	calm      bool          // few events, steady demand
	sane      bool          // readings that an engine could give
}

func newRandomRun(t *rapid.T) *randomRun {
	spec, roles := randomPolicy(t)
	world := scenario.World{Admit: randomDelay(t, "admit"), Ready: randomDelay(t, "ready"), Retire: randomDelay(t, "retire")}
	if rapid.Bool().Draw(t, "one pool") {
		total := rapid.IntRange(0, 4).Draw(t, "room")
		for _, r := range roles {
			total += int(r.Replicas)
		}
		world.Pools = map[string]int{"a100": total}
	}
	return startRun(t, scenario.Setup{Spec: spec, Target: scenario.Target{Roles: roles}, World: world}, rapid.Bool().Draw(t, "calm"))
}

// startRun watches every plan of the run.
func startRun(t *rapid.T, s scenario.Setup, calm bool) *randomRun {
	s.Start, s.Every = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), rapid.SampledFrom([]int{5, 15, 60}).Draw(t, "interval")
	s.Spec.Sampling.IntervalSeconds = int32(s.Every)
	run := &randomRun{run: scenario.NewRun(s), every: s.Every, spec: s.Spec, readings: map[string]scenario.Reading{}, calm: calm}
	run.run.Plan = func(in decide.Input) decide.Decision {
		before := decide.Clone(in)
		d := decide.Plan(in)
		requireSame(t, before, in, "the input changed")
		requireSame(t, d, decide.Plan(in), "the same input gave another decision")
		checkDecision(t, in, d)
		requireSame(t, d.State, d.Settle(decide.Outcome{}), "an unwritten decision changed the memory")
		return d
	}
	return run
}

func (run *randomRun) pass(t *rapid.T) {
	events := append(run.observe(t), run.event(t))
	p, err := run.run.Step(run.at, events...)
	require.NoError(t, err)
	checkMemory(t, p.State)
	run.last = p
	run.at += run.every
}

// observe changes what is read of the roles.
func (run *randomRun) observe(t *rapid.T) []scenario.Event {
	changed := map[string]scenario.Reading{}
	if run.at == 0 {
		changed = maps.Clone(run.readings)
	}
	for _, r := range run.spec.Roles {
		_, known := run.readings[r.Name]
		switch {
		case run.calm && (!known || rapid.IntRange(0, 40).Draw(t, "new demand") == 0):
			changed[r.Name] = scenario.Reading{Running: float64(rapid.IntRange(0, 60).Draw(t, "demand"))}
		case !run.calm && (!known || rapid.IntRange(0, 9).Draw(t, "new reading") == 0):
			changed[r.Name] = randomReading(t, run.sane)
		default:
			continue
		}
		run.readings[r.Name] = changed[r.Name]
	}
	return []scenario.Event{{Observe: changed}}
}

// event befalls the world or the decider, rarely.
func (run *randomRun) event(t *rapid.T) (e scenario.Event) {
	if run.spec.Suspend || run.spec.Mode == workerv1.ModeShadow || run.disturbed {
		return run.recover(t)
	}
	if c := meta.FindStatusCondition(run.last.State.Conditions, workerv1.ConditionBlocked); c != nil && c.Reason == workerv1.ReasonBoundsConflict {
		if rapid.IntRange(0, 3).Draw(t, "fits again") == 0 {
			run.edit(func(spec *workerv1.ModelDeploymentScalerSpec) { run.newBounds(t, spec, 0) })
		}
		return e
	}
	rare := 90
	if run.calm {
		rare = 300
	}
	switch rapid.IntRange(0, rare).Draw(t, "event") {
	case 0:
		e.Conflict = true
	case 1:
		e.Restart = true
	case 2: // at most one decision is unknown (D33)
		e.RestartLost = run.last.StatusWritten
	case 3, 4, 20, 21, 22:
		e.Retirement = run.retirement(t)
	case 5:
		e.Admit = run.instances(target.AdmissionPending)
	case 6:
		run.edit(func(spec *workerv1.ModelDeploymentScalerSpec) { spec.Suspend = true })
	case 7:
		run.edit(func(spec *workerv1.ModelDeploymentScalerSpec) { spec.Mode = workerv1.ModeShadow })
	case 8:
		run.edit(func(spec *workerv1.ModelDeploymentScalerSpec) { spec.Behavior = randomBehavior(t) })
	case 9: // somebody edits another field of the target
		e.Target = map[string]any{}
	case 10:
		e.TargetRecreated, run.disturbed = run.sameTarget(), true
	case 11:
		run.edit(func(spec *workerv1.ModelDeploymentScalerSpec) {
			run.newBounds(t, spec, rapid.SampledFrom([]int32{0, 0, 0, 1}).Draw(t, "below"))
		})
	case 12:
		e.Binding, run.disturbed = binding(rapid.SampledFrom([]string{"garbage", `{"scalerName":"other","scalerUID":"other","term":3}`}).Draw(t, "binding")), true
	case 13:
		e.Binding = binding("none")
	case 14:
		e.StatusWriteFails = true
	case 15:
		e.Stale = rapid.IntRange(1, 3).Draw(t, "stale")
	case 16:
		if admitted := run.instances(target.AdmissionGranted); len(admitted) > 0 {
			e.Evict = []string{rapid.SampledFrom(admitted).Draw(t, "evicted")}
		}
	case 17:
		e.Clock = rapid.SampledFrom([]float64{-3600, 3600}).Draw(t, "clock")
	}
	return e
}

func binding(text string) *scenario.Binding { b := scenario.Binding(text); return &b }

// recover ends, sooner or later, what would stop planning for good.
func (run *randomRun) recover(t *rapid.T) (e scenario.Event) {
	if rapid.IntRange(0, 3).Draw(t, "recovers") > 0 {
		return e
	}
	run.disturbed = false
	run.edit(func(spec *workerv1.ModelDeploymentScalerSpec) { spec.Suspend, spec.Mode = false, workerv1.ModeActive })
	if s := run.last.Input.Target; s != nil && !strings.Contains(s.Annotations[fence.BindingAnnotation], scenario.ScalerUID) {
		e.Binding = binding("none")
	}
	return e
}

func (run *randomRun) edit(change func(*workerv1.ModelDeploymentScalerSpec)) {
	edited := *run.spec.DeepCopy()
	change(&edited)
	run.spec = edited
	run.run.Edit(edited)
}

// newBounds have ceilings that leave the current counts within them, but for so many.
func (run *randomRun) newBounds(t *rapid.T, spec *workerv1.ModelDeploymentScalerSpec, below int32) {
	for i := range spec.Roles {
		b := &spec.Roles[i]
		b.MaxReplicas = max(run.last.After[b.Name]-below, b.MinReplicas, rapid.Int32Range(1, 20).Draw(t, "new max"))
	}
}

func (run *randomRun) sameTarget() *scenario.Target {
	made := &scenario.Target{}
	if run.last.Input.Target == nil {
		return nil
	}
	for _, r := range run.last.Input.Target.Roles {
		made.Roles = append(made.Roles, scenario.Role{Name: r.Name, Kind: kindOf(r), Replicas: run.last.After[r.Name], InstanceType: r.InstanceType})
	}
	return made
}

func kindOf(r target.Role) string {
	if r.Kind == "" {
		return "Rerank"
	}
	return string(r.Kind)
}

// instances that the last pass saw in that state of admission and that are still declared, as role/ordinal.
func (run *randomRun) instances(in target.Admission) (names []string) {
	if run.last.Input.Target == nil {
		return nil
	}
	for _, i := range run.last.Input.Target.Instances {
		if i.Admission == in && i.Ordinal < int(min(run.last.After[i.Role], run.last.Current[i.Role])) {
			names = append(names, fmt.Sprintf("%s/%d", i.Role, i.Ordinal))
		}
	}
	return names
}

func (run *randomRun) retirement(t *rapid.T) *scenario.Retirement {
	if s := run.run.State().LastScaleDown; s != nil && rapid.Bool().Draw(t, "of the last removal") {
		return &scenario.Retirement{Role: s.Role, Ordinal: int(s.Ordinal), State: "Aborted"}
	}
	role := rapid.SampledFrom(run.spec.Roles).Draw(t, "retiring role").Name
	ordinal := int(run.last.After[role]) + rapid.IntRange(-1, 1).Draw(t, "ordinal")
	state := rapid.SampledFrom([]string{"Draining", "Aborted", "Aborted", "Finished"}).Draw(t, "retirement")
	return &scenario.Retirement{Role: role, Ordinal: ordinal, State: state}
}

// requireSame also takes NaN for NaN, an input may hold one: then the texts decide.
func requireSame(t *rapid.T, want, got any, what string) {
	if !reflect.DeepEqual(want, got) && fmt.Sprint(decide.ClearPointers(want)) != fmt.Sprint(decide.ClearPointers(got)) {
		require.Equal(t, want, got, what)
	}
}
