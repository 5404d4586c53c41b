package decide

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/target"
	"gpustack.ai/model-deployment-scaler/internal/windows"
)

// noon is the time of a test's pass.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const interval = 15 * time.Second

// setting is an Input in the making: an Active scaler that owns its target, with every replica ready and admitted.
type setting struct{ Input }

// with sets things up for roles, each with its bounds 1 to 16 and a QueueDepth target of 10.
func with(roles ...target.Role) *setting {
	s := &setting{Input{
		Now:   noon,
		Live:  true,
		Epoch: fence.Epoch{LeaseUID: "abcdefgh-lease", Transitions: 4},
		Scaler: Scaler{Namespace: "default", Name: "llm", UID: "scaler-1", Generation: 3, Spec: workerv1.ModelDeploymentScalerSpec{
			TargetRef: workerv1.TargetReference{Name: "llm"},
			Mode:      workerv1.ModeActive,
			Algorithm: workerv1.Algorithm{Type: workerv1.AlgorithmProportional,
				Proportional: &workerv1.Proportional{Metric: workerv1.MetricQueueDepth}},
		}},
		Target: &target.Snapshot{Deployment: target.Deployment{
			Namespace: "default", Name: "llm", UID: "target-1", Generation: 7, Roles: roles,
			Annotations: map[string]string{fence.BindingAnnotation: fence.Binding{ScalerName: "llm", ScalerUID: "scaler-1", Term: 2}.String()},
		}},
		Observations: map[string]observe.RoleObservation{},
		State:        State{ObservedGeneration: 3, Binding: Binding{TargetUID: "target-1", TargetName: "llm", Term: 2}},
	}}
	spec := &s.Scaler.Spec
	for _, r := range roles {
		spec.Roles = append(spec.Roles, workerv1.RoleBounds{Name: r.Name, MinReplicas: 1, MaxReplicas: 16})
		spec.Algorithm.Proportional.RoleTargets = append(spec.Algorithm.Proportional.RoleTargets,
			workerv1.RoleTarget{Name: r.Name, Target: resource.MustParse("10")})
		s.State.Roles = append(s.State.Roles, RoleState{Name: r.Name, Current: r.Replicas, Ready: r.Replicas})
		s.ready(r.Name, 0, int(r.Replicas))
		s.observe(r.Name, func(o *observe.RoleObservation) {})
	}
	return s
}

// server is the one role that most tests need.
func server(replicas int32) target.Role { return named("server", observe.Server, replicas) }

func named(name string, kind observe.RoleKind, replicas int32) target.Role {
	return target.Role{Name: name, Kind: kind, Replicas: replicas, Size: 1, InstanceType: "a100"}
}

// ready adds admitted and ready instances of the ordinals [from, to).
func (s *setting) ready(role string, from, to int) *setting {
	for o := from; o < to; o++ {
		s.Target.Instances = append(s.Target.Instances, target.Instance{Role: role, Ordinal: o, Ready: true, Admission: target.AdmissionGranted})
	}
	return s
}

// instance changes one instance.
func (s *setting) instance(role string, ordinal int, change func(*target.Instance)) *setting {
	for i := range s.Target.Instances {
		if in := &s.Target.Instances[i]; in.Role == role && in.Ordinal == ordinal {
			change(in)
		}
	}
	return s
}

// observe changes a role's observation: complete, quiet and idle until a test says otherwise.
func (s *setting) observe(role string, change func(*observe.RoleObservation)) *setting {
	o, seen := s.Observations[role]
	if !seen {
		ready := 0
		for _, in := range s.Target.Instances {
			if in.Role == role && in.Ready {
				ready++
			}
		}
		o = observe.RoleObservation{Sequence: 1, Interval: interval, Span: interval,
			Coverage: observe.Coverage{ReadyReplicas: ready, Targets: ready, Selected: ready, Answered: ready, Rated: ready},
			Running:  observe.Known(0), Waiting: observe.Known(0), Prompt: observe.Known(0), Generation: observe.Known(0)}
	}
	change(&o)
	s.Observations[role] = o
	return s
}

// queue is the number of running requests that are observed.
func (s *setting) queue(role string, running float64) *setting {
	return s.observe(role, func(o *observe.RoleObservation) { o.Running = observe.Known(running) })
}

// remembering lets a role's history hold one recommendation for the last half hour.
func (s *setting) remembering(role string, replicas int32) *setting {
	var h windows.History
	for at := noon.Add(-30 * time.Minute); at.Before(noon); at = at.Add(interval) {
		h = h.Add(at, replicas)
	}
	s.State.role(role).History = h
	return s
}

// bound puts somebody's annotation on the target; empty removes it.
func (s *setting) bound(value string) *setting {
	delete(s.Target.Annotations, fence.BindingAnnotation)
	if value != "" {
		s.Target.Annotations[fence.BindingAnnotation] = value
	}
	return s
}

// committed is a decision on the target that the memory knows, of one kind.
func (s *setting) committed(kind fence.CommitKind, baseline, vector workerv1.Vector, at time.Time) *setting {
	id := fence.DecisionID{Epoch: "abcdefgh-4", Sequence: 8, Kind: kind}.String()
	s.Target.Annotations[fence.DecisionAnnotation] = fence.Decision{DecisionID: id, Term: 2, Vector: vector}.String()
	s.State.LastCommit = &workerv1.CommitStatus{DecisionID: id, Term: 2, Vector: vector, BaselineVector: baseline,
		Timestamp: metav1.NewTime(at), TargetGeneration: s.Target.Generation}
	return s
}

// pending is a cohort on top of that.
func (s *setting) pending(baseline, vector workerv1.Vector, since time.Time) *setting {
	s.committed(fence.CommitUp, baseline, vector, since)
	s.State.PendingCohort = &workerv1.PendingCohort{DecisionID: s.State.LastCommit.DecisionID, Term: 2,
		BaselineVector: baseline, TargetVector: vector, StartedAt: metav1.NewTime(since)}
	return s
}

// vectorOf is what a decision writes; nil when it writes no counts.
func vectorOf(d Decision) map[string]int32 {
	if d.Commit == nil {
		return nil
	}
	return maps.Clone(d.Commit.Decision.Vector)
}

func conditionOf(s State, kind string) string {
	if c := findCondition(s.Conditions, kind); c != nil {
		return string(c.Status) + "/" + c.Reason
	}
	return ""
}

// rules are those that acted on a role, in order.
func rules(d Decision, role string) []string {
	var found []string
	for _, s := range d.Trace[role] {
		if s.Rule != "" && s.Stage != StageRecommend {
			found = append(found, s.Rule)
		}
	}
	return found
}

func requireCount(t *testing.T, want int32, d Decision, role string) {
	t.Helper()
	require.Equal(t, want, d.State.role(role).Constrained, "%v", d.Trace)
}

func quantityOf(s string) *resource.Quantity {
	q := resource.MustParse(s)
	return &q
}

// latencyOf is a latency in milliseconds; nil is missing.
func latencyOf(ms *float64) observe.Latency {
	if ms == nil {
		return observe.Latency{}
	}
	return observe.Latency{Milliseconds: *ms, Source: observe.FromBucket, Count: 1}
}
