package admission

import (
	"context"
	"encoding/json"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

const defaultsNotWritten = "the scaler's defaults cannot be written: %v"

// mutateScaler fills in defaults. It judges nothing: what it cannot read passes unchanged to the schema, which names the
// broken field better than a decoder could.
func mutateScaler(_ context.Context, r *admissionv1.AdmissionRequest) verdict {
	if r.Kind.Group != workerv1.GroupName || r.Kind.Kind != workerv1.Kind {
		return badRequest("this webhook fills in %s, not %.100q of group %.100q", workerv1.Kind, r.Kind.Kind, r.Kind.Group)
	}
	patch, err := Defaults(r.Object.Raw)
	if err != nil {
		return badRequest(defaultsNotWritten, err)
	}
	v := allowed()
	if patch != nil {
		v.response.Patch, v.response.PatchType = patch, new(admissionv1.PatchTypeJSONPatch)
	}
	return v
}

// Defaults is the JSON Patch that gives a scaler, as it was sent, its defaults; nil when it has them, is being deleted, or cannot
// be read.
func Defaults(object []byte) ([]byte, error) {
	scaler, sent, err := readScaler(object)
	if readable := err == nil && sent != nil; !readable || scaler.DeletionTimestamp != nil {
		return nil, nil
	}
	return defaults(scaler.Spec, sent)
}

// defaults is the JSON Patch that gives the sent spec its defaults; nil when it has them.
func defaults(spec workerv1.ModelDeploymentScalerSpec, sent map[string]any) ([]byte, error) {
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&spec)
	if err != nil {
		return nil, err
	}
	workerv1.Default(&spec)
	after, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&spec)
	if err != nil {
		return nil, err
	}
	operations := difference("/spec", sent, before, after)
	if len(operations) == 0 {
		return nil, nil
	}
	return json.Marshal(operations)
}
