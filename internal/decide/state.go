package decide

import (
	"slices"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/windows"
)

// StateFromStatus is the memory that a stored status holds. Times in it are distrusted by Plan (D44), not here.
func StateFromStatus(status workerv1.ModelDeploymentScalerStatus) State {
	stored := status.DeepCopy()
	s := State{
		ObservedGeneration: stored.ObservedGeneration,
		LastCommit:         stored.LastCommit,
		PendingCohort:      stored.PendingCohort,
		Rebalance:          stored.Rebalance,
		LastScaleDown:      stored.LastScaleDown,
		Exhaustion:         stored.Exhaustion,
		Conditions:         stored.Conditions,
	}
	if b := stored.Binding; b != nil {
		s.Binding = Binding{TargetUID: b.TargetUID, TargetName: b.TargetName, Term: max(0, b.Term)}
	}
	for i := range stored.Roles {
		s.Roles = append(s.Roles, roleFromStatus(&stored.Roles[i]))
	}
	for i := range stored.Predictors {
		s.Predictors = append(s.Predictors, predictorFromStatus(&stored.Predictors[i]))
	}
	return s
}

// Brief is the memory without histories and predictors: what NeedsWrite looks at, at a tenth of the cost.
func (s State) Brief() State {
	s.Roles, s.Predictors = slices.Clone(s.Roles), nil
	for i := range s.Roles {
		s.Roles[i].History = nil
	}
	return s
}

// Status is the memory as the status keeps it; nothing in it is shared with the State.
func (s State) Status() workerv1.ModelDeploymentScalerStatus {
	status := workerv1.ModelDeploymentScalerStatus{
		ObservedGeneration: s.ObservedGeneration,
		LastCommit:         s.LastCommit.DeepCopy(),
		PendingCohort:      s.PendingCohort.DeepCopy(),
		Rebalance:          s.Rebalance.DeepCopy(),
		LastScaleDown:      s.LastScaleDown.DeepCopy(),
		Exhaustion:         s.Exhaustion.DeepCopy(),
		Conditions:         slices.Clone(s.Conditions),
	}
	if b := s.Binding; b != (Binding{}) {
		status.Binding = &workerv1.BindingStatus{TargetUID: b.TargetUID, TargetName: b.TargetName, Term: b.Term}
	}
	for i := range s.Roles {
		status.Roles = append(status.Roles, s.Roles[i].status())
	}
	for i := range s.Predictors {
		status.Predictors = append(status.Predictors, s.Predictors[i].status())
	}
	return status
}

func roleFromStatus(stored *workerv1.RoleStatus) RoleState {
	r := RoleState{
		Name:        stored.Name,
		Current:     stored.CurrentReplicas,
		Ready:       stored.ReadyReplicas,
		Signal:      observe.SignalState(stored.SignalState),
		Raw:         stored.RawRecommendedReplicas,
		Constrained: stored.ConstrainedReplicas,
		Reason:      stored.Reason,
		Observed: observe.RoleObservation{
			Running:      countValue(stored.RunningRequests),
			Waiting:      countValue(stored.WaitingRequests),
			Prompt:       value(stored.PromptTokensPerSecond),
			Generation:   value(stored.GenerationTokensPerSecond),
			KVCacheUsage: value(stored.KVCacheUsage),
			TTFT:         latency(stored.TTFTMilliseconds),
			ITL:          latency(stored.ITLMilliseconds),
		},
		LastScaleUpTime: timeOf(stored.LastScaleUpTime),
		PanicUntil:      timeOf(stored.PanicUntil),
	}
	for _, e := range stored.StabilizationHistory {
		r.History = append(r.History, windows.Recommendation{At: e.Timestamp.Time, Replicas: e.Replicas})
	}
	return r
}

func (r *RoleState) status() workerv1.RoleStatus {
	o := &r.Observed
	status := workerv1.RoleStatus{
		Name:                      r.Name,
		CurrentReplicas:           r.Current,
		ReadyReplicas:             r.Ready,
		SignalState:               workerv1.SignalState(r.Signal),
		PromptTokensPerSecond:     quantity(o.Prompt),
		GenerationTokensPerSecond: quantity(o.Generation),
		RunningRequests:           count(o.Running),
		WaitingRequests:           count(o.Waiting),
		KVCacheUsage:              quantity(o.KVCacheUsage),
		TTFTMilliseconds:          quantity(o.TTFT.Value()),
		ITLMilliseconds:           quantity(o.ITL.Value()),
		RawRecommendedReplicas:    r.Raw,
		ConstrainedReplicas:       r.Constrained,
		Reason:                    r.Reason,
		LastScaleUpTime:           timestamp(r.LastScaleUpTime),
		PanicUntil:                timestamp(r.PanicUntil),
	}
	for _, e := range r.History {
		status.StabilizationHistory = append(status.StabilizationHistory,
			workerv1.Recommendation{Timestamp: stamp(e.At), Replicas: e.Replicas})
	}
	return status
}

func predictorFromStatus(stored *workerv1.PredictorStatus) Predictor {
	p := Predictor{Name: stored.Name, Samples: max(0, stored.SampleCount)}
	p.Level, p.Trend = number(stored.Level), number(stored.Trend)
	if c := stored.Covariance; c != nil {
		p.P00, p.P01, p.P11 = number(&c.P00), (number(&c.P01)+number(&c.P10))/2, number(&c.P11)
	}
	for i, d := range stored.History { // spans are not stored: Plan gives them (begun)
		p.History = append(p.History, windows.Rate{At: d.Timestamp.Time, PerSecond: number(&stored.History[i].TokensPerSecond), Partial: d.Partial})
	}
	return p
}

func (p *Predictor) status() workerv1.PredictorStatus {
	status := workerv1.PredictorStatus{Name: p.Name, SampleCount: p.Samples}
	if p.Samples > 0 {
		level, trend := fine(p.Level), fine(p.Trend)
		status.Level, status.Trend = &level, &trend
		status.Covariance = &workerv1.Covariance{P00: fine(p.P00), P01: fine(p.P01), P10: fine(p.P01), P11: fine(p.P11)}
	}
	for _, rate := range p.History {
		status.History = append(status.History, workerv1.Demand{Timestamp: stamp(rate.At), TokensPerSecond: fine(rate.PerSecond), Partial: rate.Partial})
	}
	return status
}
