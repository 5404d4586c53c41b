package admission

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

// hugeExponent finds numbers such as 1e-99999999, which take a quantity's parser seconds, as numbers of a million digits do.
// The schema of the CRD refuses both, but it judges after the mutating webhook.
var hugeExponent = regexp.MustCompile(`^[-+]?[0-9.]+[eE][-+]?[0-9]{3,}$`)

// maxString is the longest string that the schema allows anywhere in a spec.
const maxString = 253

var errUnreasonable = errors.New("spec has a string of over 253 characters, or a number with an exponent of over two digits")

// readScaler returns the scaler, and its spec as it was sent.
func readScaler(raw []byte) (*workerv1.ModelDeploymentScaler, map[string]any, error) {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		return nil, nil, fmt.Errorf("reading the scaler: %w", err)
	}
	spec, _ := object.Object["spec"].(map[string]any)
	if unreasonable(spec) {
		return nil, nil, fmt.Errorf("reading the scaler: %w", errUnreasonable)
	}
	delete(object.Object, "status") // large, and nothing here depends on it
	var scaler workerv1.ModelDeploymentScaler
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &scaler); err != nil {
		return nil, nil, fmt.Errorf("reading the scaler: %w", err)
	}
	return &scaler, spec, nil
}

// unreasonable says whether the value holds a string that is not worth parsing.
func unreasonable(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		for _, item := range v {
			if unreasonable(item) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, unreasonable)
	case string:
		return len(v) > maxString || hugeExponent.MatchString(v)
	}
	return false
}
