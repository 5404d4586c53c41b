package main

import (
	"context"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/admission"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// one is a kind of request, as an API server would send it over and over.
type one struct {
	name    string
	path    string
	body    []byte
	allowed bool
	reads   bool // the webhook asks the API server once before it answers
}

const scalerText = `
apiVersion: worker.gpustack.ai/v1
kind: ModelDeploymentScaler
metadata: {name: chat}
spec:
  targetRef: {name: chat}
  roles: [{name: prefill, minReplicas: 1, maxReplicas: 8}, {name: decode, minReplicas: 1, maxReplicas: 16}]
  algorithm:
    type: Proportional
    proportional: {metric: QueueDepth, tolerance: "0.1", roleTargets: [{name: prefill, target: "8"}, {name: decode, target: "8"}]}
`

const deploymentText = `
apiVersion: worker.gpustack.ai/v1
kind: ModelDeployment
metadata: {name: chat}
spec:
  model: {name: Qwen/Qwen3-8B}
  engine: {name: vLLM}
  roles:
    - {name: prefill, kind: Prefill, replicas: 2, instanceType: a100}
    - {name: decode, kind: Decode, replicas: 4, instanceType: a100}
`

// cases makes the objects that the webhook looks up, and the requests about them.
func (w *world) cases(ctx context.Context) ([]one, error) {
	scaler, err := w.create(ctx, workerv1.Resource, scalerText)
	if err != nil {
		return nil, err
	}
	free, err := w.create(ctx, target.Resource, deploymentText)
	if err != nil {
		return nil, err
	}
	binding := fence.Binding{ScalerName: scaler.GetName(), ScalerUID: string(scaler.GetUID()), Term: 1}
	bound := with(free, map[string]string{fence.BindingAnnotation: binding.String()})
	decision := fence.Decision{
		DecisionID: fence.DecisionID{Epoch: w.epoch.String(), Sequence: 1, Kind: fence.CommitUp}.String(),
		Term:       1, Vector: map[string]int32{"prefill": 3, "decode": 4},
	}
	commit := grown(with(bound, map[string]string{fence.BindingAnnotation: binding.String(), fence.DecisionAnnotation: decision.String()}))
	requests := []struct {
		name, path, user string
		object, old      *unstructured.Unstructured
		allowed, reads   bool
	}{
		{"defaults of a scaler", admission.MutateScalerPath, "jane", scaler, nil, true, false},
		{"a scaler, judged with its target (one read)", admission.ValidateScalerPath, "jane", scaler, nil, true, true},
		{"counts of an unbound deployment", admission.FencePath, "jane", grown(free), free, true, false},
		{"counts of a bound deployment, refused", admission.FencePath, "jane", grown(bound), bound, false, false},
		{"a commit of the decider (one read)", admission.FencePath, deciderUser, commit, bound, true, true},
		{"removing a binding, refused (one read)", admission.FencePath, "jane", free, bound, false, true},
	}
	var all []one
	for _, r := range requests {
		body, err := review(r.user, r.object, r.old)
		if err != nil {
			return nil, err
		}
		all = append(all, one{r.name, r.path, body, r.allowed, r.reads})
	}
	return all, nil
}

func (w *world) create(ctx context.Context, resource, text string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		return nil, fmt.Errorf("reading YAML: %w", err)
	}
	created, err := w.resource(resource).Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return created, nil
}

func (w *world) resource(name string) dynamic.ResourceInterface {
	return w.client.Resource(schema.GroupVersionResource{Group: workerv1.GroupName, Version: "v1", Resource: name}).Namespace("default")
}

func with(u *unstructured.Unstructured, annotations map[string]string) *unstructured.Unstructured {
	u = u.DeepCopy()
	u.SetAnnotations(annotations)
	return u
}

// grown has one prefill replica more.
func grown(u *unstructured.Unstructured) *unstructured.Unstructured {
	u = u.DeepCopy()
	roles, _, _ := unstructured.NestedSlice(u.Object, "spec", "roles")
	roles[0].(map[string]any)["replicas"] = int64(3)
	u.Object["spec"].(map[string]any)["roles"] = roles
	return u
}

func review(user string, object, old *unstructured.Unstructured) ([]byte, error) {
	r := &admissionv1.AdmissionRequest{UID: "705ab4f5-6393-11e8-b7cc-42010a800002", Operation: admissionv1.Create, Namespace: object.GetNamespace(), Name: object.GetName()}
	r.Kind = metav1.GroupVersionKind(object.GroupVersionKind())
	r.UserInfo.Username = user
	for raw, u := range map[*runtime.RawExtension]*unstructured.Unstructured{&r.Object: object, &r.OldObject: old} {
		if u == nil {
			continue
		}
		body, err := u.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("writing a request: %w", err)
		}
		raw.Raw = body
	}
	if old != nil {
		r.Operation = admissionv1.Update
	}
	review := admissionv1.AdmissionReview{Request: r}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	body, err := json.Marshal(review)
	if err != nil {
		return nil, fmt.Errorf("writing a request: %w", err)
	}
	return body, nil
}
