package decide

import (
	"math"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// defaultTolerance of Proportional (spec "Proportional").
const defaultTolerance = 0.1

// toleranceSlack keeps a load that is exactly on the edge of the tolerance inside of it (D15).
const toleranceSlack = 1e-9

// proportional divides one measurement by a target per ready replica (spec "Proportional").
type proportional struct {
	metric    workerv1.ProportionalMetric
	tolerance float64
	targets   []workerv1.RoleTarget
}

func newProportional(spec *workerv1.Proportional) algorithm {
	if spec == nil {
		return unsupported{}
	}
	a := proportional{metric: spec.Metric, tolerance: defaultTolerance, targets: spec.RoleTargets}
	if spec.Tolerance != nil {
		a.tolerance = spec.Tolerance.AsApproximateFloat64()
	}
	return a
}

func (a proportional) target(r *role) float64 {
	for i := range a.targets {
		if a.targets[i].Name == r.Name {
			return a.targets[i].Target.AsApproximateFloat64()
		}
	}
	return 0
}

func (a proportional) sizes(r *role) bool { return a.target(r) > 0 }

func (a proportional) demand(r *role) observe.Value {
	o, decodes := r.observed, r.Kind == observe.Decode // whose prompt counters say nothing of its work (D9)
	switch a.metric {
	case workerv1.MetricQueueDepth:
		return o.Running.Plus(o.Waiting)
	case workerv1.MetricRunningRequests:
		return o.Running
	case workerv1.MetricWaitingRequests:
		return o.Waiting
	case workerv1.MetricPromptTokensPerSecond:
		if decodes {
			return observe.Value{}
		}
		return o.Prompt
	case workerv1.MetricGenerationTokensPerSecond:
		return o.Generation
	case workerv1.MetricTotalTokensPerSecond:
		if decodes {
			return o.Generation
		}
		return o.Prompt.Plus(o.Generation)
	}
	return observe.Value{}
}

func (a proportional) remember(*pass, *role) {}

func (a proportional) lacks(_ *pass, r *role) string {
	switch {
	case a.demand(r).Valid:
		return ""
	case r.Kind == observe.Decode && a.metric == workerv1.MetricPromptTokensPerSecond:
		return "prompt tokens say nothing of a Decode role: size it by GenerationTokensPerSecond"
	}
	return "its metric was not in the readings yet"
}

func (a proportional) rates() bool {
	switch a.metric {
	case workerv1.MetricPromptTokensPerSecond, workerv1.MetricGenerationTokensPerSecond, workerv1.MetricTotalTokensPerSecond:
		return true
	}
	return false
}

func (a proportional) recommend(_ *pass, r *role) recommendation {
	demand, target := a.demand(r).Float64, a.target(r)
	load := demand / float64(r.observed.Coverage.ReadyReplicas)
	if math.Abs(load/target-1) <= a.tolerance+toleranceSlack {
		return recommendation{raw: r.Replicas, reason: ReasonWithinTolerance}
	}
	return recommendation{raw: replicas(demand / target), reason: ReasonProportional}
}
