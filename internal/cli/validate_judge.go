package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/admission"
	"gpustack.ai/model-deployment-scaler/internal/crd"
	"gpustack.ai/model-deployment-scaler/internal/manifest"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// judgeAll judges the scalers among the manifests, each against its target if that is among them.
func judgeAll(ctx context.Context, manifests []manifest.Manifest, namespace string) (validateReport, error) {
	definition, err := crd.Scalers()
	if err != nil {
		return validateReport{}, err
	}
	for i := range manifests {
		named(&manifests[i], namespace)
	}
	report := validateReport{Scalers: []scalerReport{}}
	for i := range manifests {
		if m := &manifests[i]; m.Text("kind") == workerv1.Kind {
			j := judging{scalerReport: reportOf(m), manifest: m, definition: definition, target: targetOf(m, manifests)}
			if err := j.judge(ctx); err != nil {
				return report, fmt.Errorf("judging %s of %s: %w", j.object(), m.File, err)
			}
			slices.SortStableFunc(j.Errors, byLine)
			report.Scalers = append(report.Scalers, j.scalerReport)
		}
	}
	return report, nil
}

// judging is one scaler on its way through what the cluster does with it.
type judging struct {
	scalerReport
	manifest   *manifest.Manifest
	definition *crd.Definition
	target     *manifest.Manifest // nil: not among the files
}

// judge does what the API server does, in its order: unknown fields, defaults of schema, webhook and schema, the schema and its
// rules, and if those are content the validating webhook.
func (j *judging) judge(ctx context.Context) error {
	object := j.manifest.Object
	delete(object, "status") // a client cannot write it
	version := j.manifest.Text("apiVersion")
	if group, name, _ := strings.Cut(version, "/"); group != workerv1.GroupName || !slices.Contains(workerv1.Versions, name) {
		j.found("apiVersion", fmt.Sprintf("no matches for kind %q in version %q", workerv1.Kind, version))
		return nil
	}
	for _, field := range j.definition.Prune(object) {
		j.found(field, fmt.Sprintf("unknown field %q", field))
	}
	j.definition.Default(object)
	object, err := defaulted(object)
	if err != nil {
		return err
	}
	j.definition.Default(object)
	j.foundAll(j.definition.Validate(ctx, object, nil))
	if !j.Valid {
		return nil
	}
	return j.judgePolicy(object)
}

// judgePolicy does what the validating webhook does.
func (j *judging) judgePolicy(object map[string]any) error {
	var scaler workerv1.ModelDeploymentScaler
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &scaler); err != nil {
		return err
	}
	var live *target.Deployment
	if j.target != nil {
		parsed, err := target.Parse(&unstructured.Unstructured{Object: j.target.Object})
		if err != nil {
			j.found("spec.targetRef", fmt.Sprintf("the target cannot be read: %v", err))
			return nil
		}
		live, j.Target = &parsed, j.target.File
	}
	errs, warnings := admission.Validate(scaler.Spec, live)
	j.foundAll(errs)
	j.Warnings = append(j.Warnings, warnings...)
	return nil
}

// defaulted is the object as the mutating webhook patches it.
func defaulted(object map[string]any) (map[string]any, error) {
	sent, err := utiljson.Marshal(object)
	if err != nil {
		return nil, err
	}
	operations, err := admission.Defaults(sent)
	if err != nil || operations == nil {
		return object, err
	}
	patch, err := jsonpatch.DecodePatch(operations)
	if err != nil {
		return nil, err
	}
	stored, err := patch.Apply(sent)
	if err != nil {
		return nil, err
	}
	var after map[string]any
	err = utiljson.Unmarshal(stored, &after)
	return after, err
}

// named gives an object the namespace and the name that it gets on its way to storage.
func named(m *manifest.Manifest, namespace string) {
	if m.Object["metadata"] == nil {
		m.Object["metadata"] = map[string]any{}
	}
	metadata, is := m.Object["metadata"].(map[string]any)
	if !is {
		return // which is told as a mistake
	}
	if m.Text("metadata", "namespace") == "" {
		metadata["namespace"] = namespace
	}
	if prefix := m.Text("metadata", "generateName"); prefix != "" && m.Text("metadata", "name") == "" {
		metadata["name"] = prefix + "12345"
	}
}

// targetOf is the deployment that the scaler names; nil when it is not among the manifests.
func targetOf(scaler *manifest.Manifest, manifests []manifest.Manifest) *manifest.Manifest {
	for i := range manifests {
		m := &manifests[i]
		if m.Text("kind") == target.Kind && strings.HasPrefix(m.Text("apiVersion"), target.GroupName+"/") &&
			m.Text("metadata", "name") == scaler.Text("spec", "targetRef", "name") &&
			m.Text("metadata", "namespace") == scaler.Text("metadata", "namespace") {
			return m
		}
	}
	return nil
}
