package admission

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/crd"
)

// What users of other autoscalers reported, as configurations that must be refused with the path of the field, or admitted.

// judged is a scaler by schema, rules and webhook, in the order of the API server, with the target absent.
func judged(t *testing.T, object, old string) field.ErrorList {
	t.Helper()
	definition, err := crd.Scalers()
	require.NoError(t, err)
	is := stored(t, object, true)
	var was map[string]any
	if old != "" {
		was = stored(t, old, true)
	}
	if errs := definition.Validate(t.Context(), is, was); len(errs) > 0 {
		return errs
	}
	var scaler workerv1.ModelDeploymentScaler
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(is, &scaler))
	errs, _ := Validate(scaler.Spec, nil)
	return errs
}

// refusedAt wants the object refused at a path; an empty path admitted. On UPDATE as on CREATE.
func refusedAt(t *testing.T, path, object, old string) {
	t.Helper()
	for _, before := range []string{"", old} {
		errs := judged(t, object, before)
		if path == "" {
			require.Empty(t, errs)
			continue
		}
		require.NotEmpty(t, errs)
		require.Contains(t, paths(errs), path, "%v", errs)
	}
}

func paths(errs field.ErrorList) (paths []string) {
	for _, err := range errs {
		paths = append(paths, err.Field)
	}
	return paths
}

// Ratio values that make no sense (U-D02).
func TestRatiosThatMakeNoSenseAreRefused(t *testing.T) {
	with := func(ratios string) string {
		return scalerObject(`{"targetRef": {"name": "m1"}, "roles": [{"name": "prefill", "maxReplicas": 8}, {"name": "decode", "maxReplicas": 8}], "ratios": [` +
			ratios + `], "algorithm": ` + proportional("prefill", "decode") + `}`)
	}
	ratio := func(fields string) string {
		return with(`{"numeratorRole": "prefill", "denominatorRole": "decode"` + fields + `}`)
	}
	sound := ratio(`, "min": "0.5", "max": "2", "target": "0.5"`)
	for name, c := range map[string]struct{ path, object string }{
		"a band with the target on its edge":     {"", sound},
		"min of zero":                            {"spec.ratios[0].min", ratio(`, "min": "0"`)},
		"max below zero":                         {"spec.ratios[0].max", ratio(`, "max": "-1"`)},
		"min over max":                           {"spec.ratios[0].min", ratio(`, "min": "2", "max": "1"`)},
		"target over max":                        {"spec.ratios[0].target", ratio(`, "target": "3", "max": "2"`)},
		"a role with itself":                     {"spec.ratios[0].denominatorRole", with(`{"numeratorRole": "decode", "denominatorRole": "decode"}`)},
		"a pair that is listed twice":            {"spec.ratios[1]", with(strings.Repeat(`, {"numeratorRole": "prefill", "denominatorRole": "decode"}`, 2)[2:])},
		"a role that is not scaled":              {"spec.ratios", with(`{"numeratorRole": "encode", "denominatorRole": "decode"}`)},
		"the reverse pair, which agrees":         {"", with(`{"numeratorRole": "prefill", "denominatorRole": "decode", "max": "2"}, {"numeratorRole": "decode", "denominatorRole": "prefill", "max": "2"}`)},
		"the reverse pair, which cannot":         {"spec.ratios[0]", with(`{"numeratorRole": "prefill", "denominatorRole": "decode", "min": "2"}, {"numeratorRole": "decode", "denominatorRole": "prefill", "min": "2"}`)},
		"one to four, at a quarter":              {"", strings.ReplaceAll(ratio(`, "min": "0.25", "max": "0.25"`), `"maxReplicas": 8`, `"maxReplicas": 4`)},
		"one to four, where there are but three": {"spec.ratios[0]", strings.ReplaceAll(ratio(`, "min": "0.25", "max": "0.25"`), `"maxReplicas": 8`, `"maxReplicas": 3`)},
	} {
		t.Run(name, func(t *testing.T) { refusedAt(t, c.path, c.object, sound) })
	}
}

// Admission that only logs (U-D06).
func TestWhatIsOutOfRangeIsRefusedAndItsEdgesAreNot(t *testing.T) {
	spec := func(roles, more, algorithm string) string {
		return scalerObject(`{"targetRef": {"name": "m1"}, "roles": [` + roles + `], ` + more + `"algorithm": ` + algorithm + `}`)
	}
	const server = `{"name": "server", "maxReplicas": 4}`
	counted := proportional("server")
	sound := spec(server, "", counted)
	tolerance := func(value string) string {
		return spec(server, "", strings.Replace(counted, `"tolerance": "0.1"`, `"tolerance": `+value, 1))
	}
	windows := func(stable, panicking int) string {
		return spec(server, "", fmt.Sprintf(`{"tokenThroughput": {"serverTargetTokensPerSecond": 1, "stableWindowSeconds": %d, "panicWindowSeconds": %d}}`, stable, panicking))
	}
	more := func(format string, value int) string { return spec(server, fmt.Sprintf(format, value)+", ", counted) }
	const interval, timeout = `"sampling": {"intervalSeconds": %d}`, `"sampling": {"pendingTimeoutSeconds": %d}`
	const up, down = `"behavior": {"scaleUp": {"stabilizationWindowSeconds": %d}}`, `"behavior": {"scaleDown": {"stabilizationWindowSeconds": %d}}`
	tokenBlock := `"tokenThroughput": {"serverTargetTokensPerSecond": 1}}`
	for name, c := range map[string]struct{ path, object string }{
		"min over max":              {"spec.roles[0]", spec(`{"name": "server", "minReplicas": 5, "maxReplicas": 4}`, "", counted)},
		"min of zero":               {"spec.roles[0].minReplicas", spec(`{"name": "server", "minReplicas": 0, "maxReplicas": 4}`, "", counted)},
		"max of 1025":               {"spec.roles[0].maxReplicas", spec(`{"name": "server", "maxReplicas": 1025}`, "", counted)},
		"no max":                    {"spec.roles[0].maxReplicas", spec(`{"name": "server"}`, "", counted)},
		"a role twice":              {"spec.roles[1]", spec(server+", "+server, "", counted)},
		"two blocks":                {"spec.algorithm.tokenThroughput", spec(server, "", counted[:len(counted)-1]+", "+tokenBlock)},
		"the block of another type": {"spec.algorithm.tokenThroughput", spec(server, "", `{"type": "Proportional", `+tokenBlock)},
		"a tolerance of zero":       {"spec.algorithm.proportional.tolerance", tolerance(`"0"`)},
		"a tolerance below zero":    {"spec.algorithm.proportional.tolerance", tolerance(`"-0.1"`)},
		"a tolerance over one":      {"spec.algorithm.proportional.tolerance", tolerance(`"1.01"`)},
		"a tolerance of one":        {"", tolerance(`"1"`)},
		"an interval of 4":          {"spec.sampling.intervalSeconds", more(interval, 4)},
		"an interval of 5":          {"", more(interval, 5)},
		"an interval of 300":        {"", more(interval, 300)},
		"an interval of 301":        {"spec.sampling.intervalSeconds", more(interval, 301)},
		"a timeout of 59":           {"spec.sampling.pendingTimeoutSeconds", more(timeout, 59)},
		"a timeout of 60":           {"", more(timeout, 60)},
		"a timeout of 1200":         {"", more(timeout, 1200)},
		"a timeout of 1201":         {"spec.sampling.pendingTimeoutSeconds", more(timeout, 1201)},
		"a stable window of 29":     {"spec.algorithm.tokenThroughput.stableWindowSeconds", windows(29, 60)},
		"a stable window of 601":    {"spec.algorithm.tokenThroughput.stableWindowSeconds", windows(601, 60)},
		"a panic window of 9":       {"spec.algorithm.tokenThroughput.panicWindowSeconds", windows(60, 9)},
		"a panic window of 301":     {"spec.algorithm.tokenThroughput.panicWindowSeconds", windows(60, 301)},
		"the shortest windows, panic longer than stable": {"", windows(30, 300)},
		"the longest and the shortest":                   {"", windows(600, 10)},
		"an up window of 600":                            {"", more(up, 600)},
		"an up window of 601":                            {"spec.behavior.scaleUp.stabilizationWindowSeconds", more(up, 601)},
		"a down window of 1800":                          {"", more(down, 1800)},
		"a down window of 1801":                          {"spec.behavior.scaleDown.stabilizationWindowSeconds", more(down, 1801)},
	} {
		t.Run(name, func(t *testing.T) { refusedAt(t, c.path, c.object, sound) })
	}
	t.Run("another target", func(t *testing.T) {
		other := strings.Replace(sound, `"name": "m1"`, `"name": "m2"`, 1)
		require.Empty(t, judged(t, other, ""))
		require.Contains(t, paths(judged(t, other, sound)), "spec.targetRef")
	})
}
