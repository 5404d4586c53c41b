package decide_test

import (
	"math"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/decide"
	"gpustack.ai/model-deployment-scaler/internal/scenario"
)

var randomKinds = []string{"Server", "Server", "Prefill", "Decode", "Decode", "Encode", "Rerank"}

func randomDelay(t *rapid.T, what string) scenario.Delay {
	return rapid.SampledFrom([]scenario.Delay{0, 0, 0, 20, 90, scenario.Delay(math.Inf(1))}).Draw(t, what)
}

func randomPolicy(t *rapid.T) (workerv1.ModelDeploymentScalerSpec, []scenario.Role) {
	spec := workerv1.ModelDeploymentScalerSpec{Mode: workerv1.ModeActive, TargetRef: workerv1.TargetReference{Name: "llm"}}
	var roles []scenario.Role
	for i := range rapid.IntRange(1, 3).Draw(t, "roles") {
		name := "r" + strconv.Itoa(i)
		kind := rapid.SampledFrom(randomKinds).Draw(t, "kind")
		low := rapid.Int32Range(1, 4).Draw(t, "min")
		high := rapid.Int32Range(low, 20).Draw(t, "max")
		spec.Roles = append(spec.Roles, workerv1.RoleBounds{Name: name, MinReplicas: low, MaxReplicas: high})
		roles = append(roles, scenario.Role{Name: name, Kind: kind, Replicas: rapid.Int32Range(low, high).Draw(t, "replicas"), InstanceType: "a100"})
	}
	for i := 1; i < len(roles); i++ {
		r := decide.RandomRatio(t, roles[i-1].Name, roles[i].Name)
		if inBand(r, roles[i-1].Replicas, roles[i].Replicas) || rapid.IntRange(0, 9).Draw(t, "illegal") == 0 {
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

func randomAlgorithm(t *rapid.T, roles []scenario.Role) workerv1.Algorithm {
	tokens := workerv1.TokenThroughput{
		ServerTargetTokensPerSecond: decide.QuantityOf("100"), PrefillTargetTokensPerSecond: decide.QuantityOf("100"), DecodeTargetTokensPerSecond: decide.QuantityOf("100"),
		StableWindowSeconds: rapid.SampledFrom([]int32{0, 30, 600}).Draw(t, "stable"), PanicWindowSeconds: rapid.SampledFrom([]int32{0, 10, 300}).Draw(t, "panic"),
		PanicThreshold: decide.QuantityOf(rapid.SampledFrom([]string{"0.5", "2", "10"}).Draw(t, "threshold")),
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
		ServerTokenCapacityPerReplica: decide.QuantityOf("100"), PrefillTokenCapacityPerReplica: decide.QuantityOf("100"), DecodeTokenCapacityPerReplica: decide.QuantityOf("100")}}
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

// hostile values must never reach a count.
var hostile = []float64{math.NaN(), math.Inf(1), -1, math.MaxFloat64, 1e300, math.SmallestNonzeroFloat64}

func randomReading(t *rapid.T, sane bool) scenario.Reading {
	value := func(what string) float64 {
		if !sane && rapid.IntRange(0, 60).Draw(t, what+" hostile") == 0 {
			return rapid.SampledFrom(hostile).Draw(t, what)
		}
		return rapid.SampledFrom([]float64{0, 3, 10, 25, 70, 150, 450, 1300}).Draw(t, what) * rapid.SampledFrom([]float64{1, 1, 1.37}).Draw(t, what+" scale")
	}
	f := scenario.Reading{Running: value("running"), Waiting: value("waiting"), Prompt: value("prompt"), Generation: value("generation"), KV: value("kv")}
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
