package v1_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

func TestExamplesAreAcceptedAfterDefaulting(t *testing.T) {
	for _, name := range []string{"proportional", "token-throughput", "predictive", "least"} {
		t.Run(name, func(t *testing.T) {
			obj := example(t, name)
			require.Empty(t, write(t, obj, nil, true))
			stored := get(obj, "spec")
			require.Empty(t, write(t, obj, nil, true))
			require.Equal(t, stored, get(obj, "spec"), "writing a stored object again changes nothing")
		})
	}
}

func TestAdmissionStores(t *testing.T) {
	tests := []struct {
		name    string
		example string
		edits   edits
		stored  edits // gone: not there
	}{
		{"Shadow, when no mode is given", "least", nil, edits{"spec.mode": "Shadow"}},
		{"Opposing, when no rebalance policy is given", "least", nil, edits{"spec.rebalance.policy": "Opposing"}},
		{"TokenThroughput, when neither other block is given", "least", nil, edits{"spec.algorithm.type": "TokenThroughput"}},
		{"Proportional, from its block", "proportional", edits{"spec.algorithm.type": gone}, edits{"spec.algorithm.type": "Proportional"}},
		{"Predictive, from its block", "predictive", edits{"spec.algorithm.type": gone}, edits{"spec.algorithm.type": "Predictive"}},
		{"the defaults of the block, when they are not given", "least", nil, edits{
			"spec.algorithm.tokenThroughput.stableWindowSeconds":    int64(180),
			"spec.algorithm.tokenThroughput.panicWindowSeconds":     int64(60),
			"spec.algorithm.tokenThroughput.panicThreshold":         "2",
			"spec.algorithm.tokenThroughput.ttftTargetMilliseconds": "500",
			"spec.algorithm.tokenThroughput.itlTargetMilliseconds":  "50",
			"spec.algorithm.proportional":                           gone,
			"spec.algorithm.predictive":                             gone,
		}},
		{"defaults within the fallback, and no block beside predictive", "predictive", edits{
			"spec.algorithm.predictive.qLevel": gone, "spec.algorithm.predictive.qTrend": gone, "spec.algorithm.predictive.measurementNoise": gone,
			"spec.algorithm.predictive.horizonSeconds": gone, "spec.algorithm.predictive.minPoints": gone,
		}, edits{
			"spec.algorithm.predictive.tokenThroughput.panicThreshold": "2",
			"spec.algorithm.predictive.qLevel":                         "1",
			"spec.algorithm.predictive.qTrend":                         "100m",
			"spec.algorithm.predictive.measurementNoise":               "10",
			"spec.algorithm.predictive.horizonSeconds":                 int64(300),
			"spec.algorithm.predictive.minPoints":                      int64(6),
			"spec.algorithm.tokenThroughput":                           gone,
			"spec.algorithm.proportional":                              gone,
		}},
		{"noise values that are not positive, as they are", "predictive", edits{"spec.algorithm.predictive.qLevel": "0", "spec.algorithm.predictive.qTrend": "-1"},
			edits{"spec.algorithm.predictive.qLevel": "0", "spec.algorithm.predictive.qTrend": "-1"}},
		{"the default for a zero of the upward step", "proportional", edits{"spec.behavior.scaleUp.maxStepReplicas": int64(0), "spec.behavior.scaleUp.maxStepPercent": int64(0)},
			edits{"spec.behavior.scaleUp.maxStepReplicas": int64(4), "spec.behavior.scaleUp.maxStepPercent": int64(100)}},
		{"the default for a zero of a downward guard", "proportional", edits{
			"spec.behavior.scaleDown.stabilizationWindowSeconds": int64(0), "spec.behavior.scaleDown.cooldownAfterAbortSeconds": int64(0),
			"spec.behavior.scaleDown.decodePostScaleUpGraceSeconds": int64(0),
		}, edits{
			"spec.behavior.scaleDown.stabilizationWindowSeconds": int64(300), "spec.behavior.scaleDown.cooldownAfterAbortSeconds": int64(300),
			"spec.behavior.scaleDown.decodePostScaleUpGraceSeconds": int64(120),
		}},
		{"a step policy of zero, as it is", "proportional", edits{"spec.behavior.scaleUp.stepPolicy.value": int64(0), "spec.behavior.scaleDown.stepPolicy.value": int64(0)},
			edits{"spec.behavior.scaleUp.stepPolicy.value": int64(0), "spec.behavior.scaleDown.stepPolicy.value": int64(0)}},
		{"other values of the pace, as they are", "proportional", edits{"spec.behavior.scaleDown.stabilizationWindowSeconds": int64(7), "spec.behavior.scaleUp.stabilizationWindowSeconds": int64(9)},
			edits{"spec.behavior.scaleDown.stabilizationWindowSeconds": int64(7), "spec.behavior.scaleUp.stabilizationWindowSeconds": int64(9)}},
		{"no step policy, when none is given", "least", nil, edits{"spec.behavior.scaleUp.stepPolicy": gone, "spec.behavior.scaleDown.stepPolicy": gone}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			obj := example(t, tt.example)
			tt.edits.change(t, obj)
			require.Empty(t, write(t, obj, nil, true))
			for path, want := range tt.stored {
				if want == any(gone) {
					want = nil
				}
				require.Equal(t, want, get(obj, path), path)
			}
		})
	}
}

// Without an API server in front, as in policy tests, Default alone gives what schema and webhook give together.
func TestDefaultAloneGivesWhatAdmissionStores(t *testing.T) {
	for _, name := range []string{"proportional", "token-throughput", "predictive", "least"} {
		t.Run(name, func(t *testing.T) {
			admitted, alone := example(t, name), example(t, name)
			require.Empty(t, write(t, admitted, nil, true))
			mutate(t, admitted) // prints it as Go does
			mutate(t, alone)
			require.Equal(t, get(admitted, "spec"), get(alone, "spec"))
		})
	}
}

func TestDefaultIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		once := anySpec(t)
		workerv1.Default(once)
		twice := once.DeepCopy()
		workerv1.Default(twice)
		require.Equal(t, once, twice)
	})
}

// anySpec draws specs with any part missing or zero, valid or not.
func anySpec(t *rapid.T) *workerv1.ModelDeploymentScalerSpec {
	number := rapid.SampledFrom([]int32{0, 0, 1, 7, 300})
	spec := &workerv1.ModelDeploymentScalerSpec{
		Mode:     rapid.SampledFrom([]workerv1.Mode{"", workerv1.ModeActive}).Draw(t, "mode"),
		Sampling: workerv1.Sampling{IntervalSeconds: number.Draw(t, "interval"), PendingTimeoutSeconds: number.Draw(t, "timeout")},
		Roles: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) workerv1.RoleBounds {
			return workerv1.RoleBounds{MinReplicas: number.Draw(t, "min"), MaxReplicas: number.Draw(t, "max")}
		}), 0, 3).Draw(t, "roles"),
		Algorithm: workerv1.Algorithm{
			Type: rapid.SampledFrom([]workerv1.AlgorithmType{"", "Proportional", "TokenThroughput", "Predictive", "Magic"}).Draw(t, "type"),
		},
		Behavior: workerv1.Behavior{
			ScaleUp:   workerv1.ScaleUp{MaxStepReplicas: number.Draw(t, "step"), MaxStepPercent: number.Draw(t, "percent"), StepPolicy: anyStep(t, "up")},
			ScaleDown: workerv1.ScaleDown{StabilizationWindowSeconds: number.Draw(t, "window"), StepPolicy: anyStep(t, "down")},
		},
	}
	if rapid.Bool().Draw(t, "proportional") {
		spec.Algorithm.Proportional = &workerv1.Proportional{Tolerance: anyQuantity(t, "tolerance")}
	}
	tokens := workerv1.TokenThroughput{StableWindowSeconds: number.Draw(t, "stable"), PanicThreshold: anyQuantity(t, "threshold")}
	if rapid.Bool().Draw(t, "tokens") {
		spec.Algorithm.TokenThroughput = &tokens
	}
	if rapid.Bool().Draw(t, "predictive") {
		spec.Algorithm.Predictive = &workerv1.Predictive{TokenThroughput: tokens, HorizonSeconds: number.Draw(t, "horizon"), QLevel: anyQuantity(t, "level")}
	}
	return spec
}

func anyStep(t *rapid.T, label string) *workerv1.StepPolicy {
	return rapid.SampledFrom([]*workerv1.StepPolicy{nil, {Type: workerv1.StepPods}, {Type: workerv1.StepPercent, Value: 5}}).Draw(t, label)
}

func anyQuantity(t *rapid.T, label string) *resource.Quantity {
	text := rapid.SampledFrom([]string{"", "0", "-1", "0.5"}).Draw(t, label)
	if text == "" {
		return nil
	}
	q := resource.MustParse(text)
	return &q
}
