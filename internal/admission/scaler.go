package admission

import (
	"errors"
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

// hugeExponent finds numbers such as 1e-99999999, which take a quantity's parser seconds. The schema of the CRD refuses
// them, but it judges after the mutating webhook.
var hugeExponent = regexp.MustCompile(`^[-+]?[0-9.]+[eE][-+]?[0-9]{3,}$`)

var errHugeExponent = errors.New("a number has an exponent of more than two digits")

// readScaler returns the scaler, and its spec as it was sent.
func readScaler(raw []byte) (*workerv1.ModelDeploymentScaler, map[string]any, error) {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		return nil, nil, fmt.Errorf("reading the scaler: %w", err)
	}
	spec, _ := object.Object["spec"].(map[string]any)
	if hasHugeExponent(spec) {
		return nil, nil, fmt.Errorf("reading the scaler: %w", errHugeExponent)
	}
	delete(object.Object, "status") // large, and nothing here depends on it
	var scaler workerv1.ModelDeploymentScaler
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &scaler); err != nil {
		return nil, nil, fmt.Errorf("reading the scaler: %w", err)
	}
	return &scaler, spec, nil
}

func hasHugeExponent(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		for _, item := range v {
			if hasHugeExponent(item) {
				return true
			}
		}
	case []any:
		for _, item := range v {
			if hasHugeExponent(item) {
				return true
			}
		}
	case string:
		return hugeExponent.MatchString(v)
	}
	return false
}
