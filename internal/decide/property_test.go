package decide

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// Random policies, observations and events, pass after pass, in the world of the scenarios. Every decision keeps the promises
// that hold whatever happens. More of it: go test -run Random -rapid.checks=20000.
func TestRandomRunsKeepEveryPromise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run := newRandomRun(t)
		for range rapid.IntRange(1, 120).Draw(t, "passes") {
			run.pass(t)
		}
	})
}

type randomRun struct {
	r         *runner
	at        int
	every     int
	spec      workerv1.ModelDeploymentScalerSpec
	disturbed bool  // by somebody's annotation or a new target
	calm      bool  // few events, steady demand
	planned   State // what the last pass planned on
}

var randomKinds = []string{"Server", "Server", "Prefill", "Decode", "Decode", "Encode", "Rerank"}

func newRandomRun(t *rapid.T) *randomRun {
	spec, roles := randomPolicy(t)
	w := &world{notes: map[string]string{}, readings: map[string]*reading{}, seen: map[string]float64{}, last: map[string]observe.RoleObservation{}}
	w.file = worldFile{Admit: randomDelay(t, "admit"), Ready: randomDelay(t, "ready"), Retire: randomDelay(t, "retire")}
	if rapid.Bool().Draw(t, "one pool") {
		total := 0
		for _, r := range roles {
			total += int(r.Replicas)
		}
		w.file.Pools = map[string]int{"a100": total + rapid.IntRange(0, 4).Draw(t, "room")}
	}
	w.create(roles)
	s := &scenario{Target: targetFile{Roles: roles}}
	return &randomRun{
		r:     &runner{s: s, w: w, generation: 1, leader: 1, stored: []workerv1.ModelDeploymentScalerStatus{{}}},
		every: rapid.SampledFrom([]int{5, 15, 60}).Draw(t, "interval"),
		spec:  spec,
	}
}

func randomDelay(t *rapid.T, what string) delay {
	return rapid.SampledFrom([]delay{0, 0, 0, 20, 90, delay(math.Inf(1))}).Draw(t, what)
}

func randomPolicy(t *rapid.T) (workerv1.ModelDeploymentScalerSpec, []targetRole) {
	spec := workerv1.ModelDeploymentScalerSpec{Mode: workerv1.ModeActive, TargetRef: workerv1.TargetReference{Name: "llm"}}
	var roles []targetRole
	for i := range rapid.IntRange(1, 3).Draw(t, "roles") {
		name := "r" + strconv.Itoa(i)
		kind := rapid.SampledFrom(randomKinds).Draw(t, "kind")
		low := rapid.Int32Range(1, 4).Draw(t, "min")
		high := rapid.Int32Range(low, 20).Draw(t, "max")
		spec.Roles = append(spec.Roles, workerv1.RoleBounds{Name: name, MinReplicas: low, MaxReplicas: high})
		roles = append(roles, targetRole{Name: name, Kind: &kind, Replicas: rapid.Int32Range(low, high).Draw(t, "replicas"), InstanceType: "a100"})
	}
	for i := 1; i < len(roles); i++ {
		r := randomRatio(t, roles[i-1].Name, roles[i].Name)
		vector := workerv1.Vector{roles[i-1].Name: roles[i-1].Replicas, roles[i].Name: roles[i].Replicas}
		if violated(bandsOf([]workerv1.Ratio{r}), vector) == nil || rapid.IntRange(0, 9).Draw(t, "illegal") == 0 {
			spec.Ratios = append(spec.Ratios, r)
		}
	}
	spec.Algorithm = randomAlgorithm(t, roles)
	spec.Behavior = randomBehavior(t)
	spec.Sampling.PendingTimeoutSeconds = rapid.SampledFrom([]int32{0, 60, 120}).Draw(t, "pending timeout")
	spec.Rebalance.Policy = rapid.SampledFrom([]workerv1.RebalancePolicy{"", workerv1.RebalanceOpposing, workerv1.RebalancePriority, workerv1.RebalanceDisabled}).Draw(t, "rebalance")
	for _, r := range rapid.Permutation(roles).Draw(t, "priority") {
		spec.Rebalance.Priority = append(spec.Rebalance.Priority, r.Name)
	}
	return spec, roles
}

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

func quantityOf(s string) *resource.Quantity {
	q := resource.MustParse(s)
	return &q
}

func randomAlgorithm(t *rapid.T, roles []targetRole) workerv1.Algorithm {
	tokens := workerv1.TokenThroughput{
		ServerTargetTokensPerSecond: quantityOf("100"), PrefillTargetTokensPerSecond: quantityOf("100"), DecodeTargetTokensPerSecond: quantityOf("100"),
		StableWindowSeconds: rapid.SampledFrom([]int32{0, 30, 600}).Draw(t, "stable"), PanicWindowSeconds: rapid.SampledFrom([]int32{0, 10, 300}).Draw(t, "panic"),
		PanicThreshold: quantityOf(rapid.SampledFrom([]string{"0.5", "2", "10"}).Draw(t, "threshold")),
	}
	switch rapid.IntRange(0, 2).Draw(t, "algorithm") {
	case 0:
		p := &workerv1.Proportional{Metric: rapid.SampledFrom([]workerv1.ProportionalMetric{
			workerv1.MetricQueueDepth, workerv1.MetricRunningRequests, workerv1.MetricWaitingRequests,
			workerv1.MetricPromptTokensPerSecond, workerv1.MetricGenerationTokensPerSecond, workerv1.MetricTotalTokensPerSecond}).Draw(t, "metric")}
		for i, r := range roles {
			if i == 0 || rapid.Bool().Draw(t, "targeted") {
				p.RoleTargets = append(p.RoleTargets, workerv1.RoleTarget{Name: r.Name, Target: resource.MustParse("10")})
			}
		}
		return workerv1.Algorithm{Type: workerv1.AlgorithmProportional, Proportional: p}
	case 1:
		return workerv1.Algorithm{Type: workerv1.AlgorithmTokenThroughput, TokenThroughput: &tokens}
	}
	return workerv1.Algorithm{Type: workerv1.AlgorithmPredictive, Predictive: &workerv1.Predictive{TokenThroughput: tokens, MinPoints: 2,
		ServerTokenCapacityPerReplica: quantityOf("100"), PrefillTokenCapacityPerReplica: quantityOf("100"), DecodeTokenCapacityPerReplica: quantityOf("100")}}
}

func randomBehavior(t *rapid.T) workerv1.Behavior {
	return workerv1.Behavior{
		ScaleUp: workerv1.ScaleUp{
			StabilizationWindowSeconds: rapid.SampledFrom([]int32{0, 0, 30}).Draw(t, "up window"),
			MaxStepReplicas:            rapid.Int32Range(0, 3).Draw(t, "up replicas"),
			MaxStepPercent:             rapid.Int32Range(0, 50).Draw(t, "up percent"),
			StepPolicy:                 randomStep(t, "up"),
		},
		ScaleDown: workerv1.ScaleDown{
			StabilizationWindowSeconds:    rapid.SampledFrom([]int32{1, 30, 0}).Draw(t, "down window"),
			CooldownAfterAbortSeconds:     rapid.SampledFrom([]int32{0, 60}).Draw(t, "cooldown"),
			DecodePostScaleUpGraceSeconds: rapid.SampledFrom([]int32{0, 30}).Draw(t, "grace"),
			StepPolicy:                    randomStep(t, "down"),
		},
	}
}

func randomStep(t *rapid.T, what string) *workerv1.StepPolicy {
	if rapid.Bool().Draw(t, what+" default") {
		return nil
	}
	return &workerv1.StepPolicy{Type: rapid.SampledFrom([]workerv1.StepPolicyType{workerv1.StepPods, workerv1.StepPercent}).Draw(t, what+" type"),
		Value: rapid.SampledFrom([]int32{0, 1, 3, 50, 1000000}).Draw(t, what+" value")}
}

var hostile = []float64{math.NaN(), math.Inf(1), -1, math.MaxFloat64, 1e300, math.SmallestNonzeroFloat64}

func randomReading(t *rapid.T) *reading {
	value := func(what string) float64 {
		if rapid.IntRange(0, 60).Draw(t, what+" hostile") == 0 {
			return rapid.SampledFrom(hostile).Draw(t, what)
		}
		return rapid.SampledFrom([]float64{0, 3, 10, 25, 70, 150, 450, 1300}).Draw(t, what) * rapid.SampledFrom([]float64{1, 1, 1.37}).Draw(t, what+" scale")
	}
	f := &reading{Running: value("running"), Waiting: value("waiting"), Prompt: value("prompt"), Generation: value("generation"), KV: value("kv")}
	if rapid.Bool().Draw(t, "latencies") {
		ttft, itl := value("ttft"), value("itl")
		f.TTFT, f.ITL = &ttft, &itl
	}
	if rapid.IntRange(0, 9).Draw(t, "partial") == 0 {
		answered := rapid.IntRange(0, 3).Draw(t, "answered")
		f.Answered = &answered
	}
	if rapid.IntRange(0, 15).Draw(t, "unrated") == 0 {
		rated := false
		f.Rated = &rated
	}
	f.Down = rapid.IntRange(0, 15).Draw(t, "down") == 0
	return f
}

// events that befall the world and the decider between two passes.
func (run *randomRun) events(t *rapid.T) (refused bool) {
	w := run.r.w
	for _, r := range w.roles {
		if run.calm && w.readings[r.Name] == nil || run.calm && rapid.IntRange(0, 40).Draw(t, "new demand") == 0 {
			w.readings[r.Name] = &reading{Running: float64(rapid.IntRange(0, 60).Draw(t, "demand"))}
		}
		if !run.calm && (w.readings[r.Name] == nil || rapid.IntRange(0, 9).Draw(t, "new reading") == 0) {
			w.readings[r.Name] = randomReading(t)
		}
	}
	if run.spec.Suspend || run.spec.Mode == workerv1.ModeShadow || run.disturbed {
		run.recoverFrom(t)
	}
	rare := 90
	if run.calm {
		rare = 300
	}
	switch rapid.IntRange(0, rare).Draw(t, "event") {
	case 0:
		refused = true
	case 1:
		run.r.state = StateFromStatus(run.r.stored[len(run.r.stored)-1])
		run.r.leader++
	case 2: // the status of the last pass was never stored; at most one decision is unknown (D33)
		if n := len(run.r.stored); n > 1 && run.r.storedAt == float64(run.at-run.every) {
			run.r.stored = run.r.stored[:n-1]
			run.r.state = StateFromStatus(run.r.stored[n-2])
			run.r.leader++
		}
	case 3, 4, 20, 21, 22:
		run.retirement(t)
	case 5:
		for _, in := range w.instances {
			in.admitted = true
		}
	case 6:
		run.r.generation++
		run.spec.Suspend = true
	case 7:
		run.r.generation++
		run.spec.Mode = workerv1.ModeShadow
	case 8:
		run.r.generation++
		run.spec.Behavior = randomBehavior(t)
	case 9:
		w.generation++ // somebody edits another field of the target
	case 10:
		w.create(slices.Clone(w.roles))
		run.disturbed = true
	case 11:
		run.r.generation++
		for i := range run.spec.Roles {
			run.spec.Roles[i].MaxReplicas = max(w.roles[i].Replicas-rapid.SampledFrom([]int32{0, 0, 0, 1}).Draw(t, "below"), run.spec.Roles[i].MinReplicas, rapid.Int32Range(1, 20).Draw(t, "new max"))
		}
	case 12:
		w.notes[fence.BindingAnnotation] = rapid.SampledFrom([]string{"garbage", `{"scalerName":"other","scalerUID":"other","term":3}`}).Draw(t, "binding")
		run.disturbed = true
	case 13:
		delete(w.notes, fence.BindingAnnotation)
	}
	return refused
}

// recoverFrom ends, sooner or later, what would stop planning for good.
func (run *randomRun) recoverFrom(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "recovers") > 0 {
		return
	}
	run.r.generation++
	run.spec.Suspend, run.spec.Mode, run.disturbed = false, workerv1.ModeActive, false
	if binding := run.r.w.notes[fence.BindingAnnotation]; !strings.Contains(binding, "scaler-1") {
		delete(run.r.w.notes, fence.BindingAnnotation)
	}
}

func (run *randomRun) retirement(t *rapid.T) {
	w := run.r.w
	if s := run.r.state.LastScaleDown; s != nil && rapid.Bool().Draw(t, "of the last removal") {
		w.retire(&retirementFile{Role: s.Role, Ordinal: int(s.Ordinal), State: "Aborted"})
		return
	}
	r := rapid.SampledFrom(w.roles).Draw(t, "retiring role")
	state := rapid.SampledFrom([]string{"Draining", "Aborted", "Aborted", "Finished"}).Draw(t, "retirement")
	w.retire(&retirementFile{Role: r.Name, Ordinal: int(r.Replicas) + rapid.IntRange(-1, 1).Draw(t, "ordinal"), State: state})
}

func (run *randomRun) pass(t *rapid.T) {
	w := run.r.w
	w.advance(float64(run.at))
	refused := run.events(t)
	w.advance(float64(run.at))
	in := Input{
		Now:          time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(run.at) * time.Second),
		Epoch:        fence.Epoch{LeaseUID: "12345678-lease", Transitions: run.r.leader},
		Scaler:       Scaler{Namespace: "default", Name: "llm", UID: "scaler-1", Generation: run.r.generation, Spec: run.spec},
		Target:       w.snapshot(),
		Observations: w.observations(float64(run.every)),
		State:        run.r.state,
		Live:         true,
	}
	in.Scaler.Spec.Sampling.IntervalSeconds = int32(run.every)
	run.planned = in.State
	before := clone(in)
	d := Plan(in)
	requireSame(t, before, in, "the input changed")
	requireSame(t, d, Plan(in), "the same input gave another decision")
	checkDecision(t, in, d)
	outcome := w.write(d, refused)
	outcome.At = in.Now
	if !outcome.Written {
		requireSame(t, d.State, d.Settle(outcome), "an unwritten decision changed the memory")
	}
	run.r.state = d.Settle(outcome)
	checkMemory(t, run.r.state)
	_, err := run.r.store(float64(run.at))
	require.NoError(t, err)
	run.at += run.every
}

// requireSame also takes NaN for NaN, an input may hold one: then the texts decide.
func requireSame(t *rapid.T, want, got any, what string) {
	if !reflect.DeepEqual(want, got) && fmt.Sprint(clearPointers(want)) != fmt.Sprint(clearPointers(got)) {
		require.Equal(t, want, got, what)
	}
}

func checkMemory(t *rapid.T, s State) {
	data, err := json.Marshal(s.Status())
	require.NoError(t, err)
	require.Less(t, len(data), 1<<20)
	for _, r := range s.Roles {
		require.LessOrEqual(t, len(r.History), 256)
		require.GreaterOrEqual(t, r.Raw, int32(0))
	}
	for i := range s.Predictors {
		require.LessOrEqual(t, len(s.Predictors[i].History), 256)
		require.False(t, s.Predictors[i].broken(), "%+v", s.Predictors[i])
	}
	for _, c := range s.Conditions {
		require.LessOrEqual(t, len(c.Message), maxMessage)
	}
}

// checkDecision holds a decision against the promises, computed anew from the input.
func checkDecision(t *rapid.T, in Input, d Decision) {
	if d.Release || d.Reread {
		require.Nil(t, d.Commit)
	}
	if d.Commit == nil {
		return
	}
	c := d.Commit
	why := fmt.Sprintf("%+v trace %v", *c, d.Trace)
	require.Equal(t, workerv1.ModeActive, in.Scaler.Spec.Mode)
	require.False(t, in.Scaler.Spec.Suspend)
	id, err := fence.ParseDecisionID(c.Decision.DecisionID)
	require.NoError(t, err)
	require.Equal(t, c.Kind, id.Kind)
	if last := in.State.LastCommit; last != nil {
		require.Greater(t, id.Sequence, sequenceOf(last.DecisionID))
	}
	require.Len(t, c.Decision.Vector, len(in.Target.Roles))
	before := workerv1.Vector{}
	moved := false
	for _, r := range in.Target.Roles {
		to := c.Decision.Vector[r.Name]
		before[r.Name] = r.Replicas
		moved = moved || to != r.Replicas
		if c.Kind.Grows() {
			require.GreaterOrEqual(t, to, r.Replicas, why)
		} else {
			require.LessOrEqual(t, to, r.Replicas, why)
		}
	}
	require.True(t, moved, why)
	require.EqualValues(t, before, c.Baseline)
	checkBounds(t, in, c, before, why)
	for _, r := range in.Target.Roles {
		checkRole(t, in, d, r, why)
	}
}

// checkBounds: every written vector is within bounds and bands.
func checkBounds(t *rapid.T, in Input, c *Commit, before workerv1.Vector, why string) {
	for _, b := range in.Scaler.Spec.Roles {
		require.GreaterOrEqual(t, c.Decision.Vector[b.Name], b.MinReplicas, why)
		require.LessOrEqual(t, c.Decision.Vector[b.Name], b.MaxReplicas, why)
	}
	for _, r := range in.Scaler.Spec.Ratios {
		ratio := float64(c.Decision.Vector[r.NumeratorRole]) / float64(c.Decision.Vector[r.DenominatorRole])
		if r.Min != nil {
			require.GreaterOrEqual(t, ratio, r.Min.AsApproximateFloat64()*(1-1.01e-8), why)
		}
		if r.Max != nil {
			require.LessOrEqual(t, ratio, r.Max.AsApproximateFloat64()*(1+1.01e-8), why)
		}
	}
}

// checkRole: steps and guards of an ordinary growth or shrink, computed from the input alone.
func checkRole(t *rapid.T, in Input, d Decision, r target.Role, why string) {
	to := d.Commit.Decision.Vector[r.Name]
	state := d.State.role(r.Name)
	coupled := len(in.Scaler.Spec.Ratios) > 0
	switch {
	case to > r.Replicas && d.Commit.Kind == fence.CommitUp:
		require.LessOrEqual(t, int64(to-r.Replicas), allowedGrowth(in.Scaler.Spec.Behavior.ScaleUp, r.Replicas), why)
		require.Nil(t, d.State.PendingCohort, why)
		for o := range int(r.Replicas) {
			require.True(t, slices.ContainsFunc(in.Target.Instances, func(i target.Instance) bool {
				return i.Role == r.Name && i.Ordinal == o && i.Admission == target.AdmissionGranted
			}), "growth past an unadmitted replica: %s", why)
		}
		if !coupled {
			require.LessOrEqual(t, to, state.Raw, why)
		}
	case to < r.Replicas && (d.Commit.Kind == fence.CommitDown || d.Commit.Kind == fence.CommitDonate):
		require.LessOrEqual(t, int64(r.Replicas-to), allowedShrink(in.Scaler.Spec.Behavior.ScaleDown, r.Replicas), why)
		require.False(t, in.Target.Retirement.Running(), why)
		require.NotEqual(t, ReasonPanic, state.Reason, why)
		require.Positive(t, state.Ready, why)
		if s := d.State.LastScaleDown; s != nil && s.CooldownUntil != nil {
			require.False(t, in.Now.Before(s.CooldownUntil.Time), why)
		}
		if !coupled {
			o := in.Observations[r.Name]
			require.True(t, o.Coverage.Complete(), why)
			require.LessOrEqual(t, o.Age, 2*o.Interval+2*time.Second, why)
			if d.Commit.Kind == fence.CommitDown {
				require.GreaterOrEqual(t, to, state.Raw, why)
			}
		}
	}
}

func allowedGrowth(up workerv1.ScaleUp, current int32) int64 {
	share := func(percent int32) int64 { return int64(math.Ceil(float64(current) * float64(percent) / 100)) }
	if p := up.StepPolicy; p != nil {
		if p.Type == workerv1.StepPercent {
			return share(p.Value)
		}
		return int64(p.Value)
	}
	count, percent := up.MaxStepReplicas, up.MaxStepPercent
	if count == 0 {
		count = 4
	}
	if percent == 0 {
		percent = 100
	}
	return max(int64(count), share(percent))
}

func allowedShrink(down workerv1.ScaleDown, current int32) int64 {
	p := down.StepPolicy
	switch {
	case p == nil:
		return 1
	case p.Type == workerv1.StepPercent:
		return int64(math.Ceil(float64(current) * float64(p.Value) / 100))
	}
	return int64(p.Value)
}
