package v1

import "k8s.io/apimachinery/pkg/api/resource"

// Default fills in what the spec leaves open, as admission stores it (spec "Resource", "Algorithms", "Pacing and guards"):
// the type of the algorithm from its block, omitted fields, and zeros where the spec says that zero stores the default.
// Only the block of the algorithm that is selected is filled in, and no block is added. Zeros that mean something are kept:
// the window of scaleUp and the values of step policies. It does not judge; applying it twice changes nothing more.
//
// Schema defaults do the part about omission already. It is repeated here for specs that no API server has seen.
func Default(spec *ModelDeploymentScalerSpec) {
	orDefault(&spec.Mode, ModeShadow)
	orDefault(&spec.Sampling.IntervalSeconds, 15)
	orDefault(&spec.Sampling.PendingTimeoutSeconds, 300)
	for i := range spec.Roles {
		orDefault(&spec.Roles[i].MinReplicas, 1)
	}
	defaultAlgorithm(&spec.Algorithm)
	defaultScaleUp(&spec.Behavior.ScaleUp)
	defaultScaleDown(&spec.Behavior.ScaleDown)
	orDefault(&spec.Rebalance.Policy, RebalanceOpposing)
}

func defaultAlgorithm(a *Algorithm) {
	orDefault(&a.Type, inferredType(a))
	switch {
	case a.Type == AlgorithmProportional && a.Proportional != nil:
		quantityOrDefault(&a.Proportional.Tolerance, "0.1")
	case a.Type == AlgorithmTokenThroughput && a.TokenThroughput != nil:
		defaultTokenThroughput(a.TokenThroughput)
	case a.Type == AlgorithmPredictive && a.Predictive != nil:
		defaultPredictive(a.Predictive)
	}
}

func inferredType(a *Algorithm) AlgorithmType {
	switch {
	case a.Proportional != nil:
		return AlgorithmProportional
	case a.Predictive != nil:
		return AlgorithmPredictive
	default:
		return AlgorithmTokenThroughput
	}
}

func defaultTokenThroughput(t *TokenThroughput) {
	orDefault(&t.StableWindowSeconds, 180)
	orDefault(&t.PanicWindowSeconds, 60)
	quantityOrDefault(&t.PanicThreshold, "2")
	quantityOrDefault(&t.TTFTTargetMilliseconds, "500")
	quantityOrDefault(&t.ITLTargetMilliseconds, "50")
}

// defaultPredictive leaves noise values that are not positive as they are: the planner reads them as the default (D42).
func defaultPredictive(p *Predictive) {
	defaultTokenThroughput(&p.TokenThroughput)
	orDefault(&p.HorizonSeconds, 300)
	orDefault(&p.MinPoints, 6)
	quantityOrDefault(&p.QLevel, "1")
	quantityOrDefault(&p.QTrend, "0.1")
	quantityOrDefault(&p.MeasurementNoise, "10")
}

func defaultScaleUp(s *ScaleUp) {
	orDefault(&s.MaxStepReplicas, 4)
	orDefault(&s.MaxStepPercent, 100)
}

func defaultScaleDown(s *ScaleDown) {
	orDefault(&s.StabilizationWindowSeconds, 300)
	orDefault(&s.CooldownAfterAbortSeconds, 300)
	orDefault(&s.DecodePostScaleUpGraceSeconds, 120)
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func quantityOrDefault(field **resource.Quantity, value string) {
	if *field == nil {
		q := resource.MustParse(value)
		*field = &q
	}
}
