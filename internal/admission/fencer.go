package admission

import (
	"context"
	"encoding/json"

	admissionv1 "k8s.io/api/admission/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// fencer guards ModelDeployments of every served version and subresource (spec "Binding fence").
type fencer struct {
	cluster     Cluster
	deciderUser string
}

func (f fencer) judge(ctx context.Context, r *admissionv1.AdmissionRequest) verdict {
	if r.Operation != admissionv1.Create && r.Operation != admissionv1.Update {
		return badRequest("the fence judges CREATE and UPDATE, not %.20q", r.Operation)
	}
	if r.Kind.Kind == "Scale" && r.Kind.Group == autoscalingv1.GroupName && r.SubResource == "scale" {
		return f.judgeScale(ctx, r)
	}
	if r.Kind.Group != target.GroupName || r.Kind.Kind != target.Kind {
		return badRequest("the fence judges %s, not %.100q of group %.100q", target.Kind, r.Kind.Kind, r.Kind.Group)
	}
	is, err := readDeployment(r.Object.Raw)
	if err != nil {
		return badRequest("the new object cannot be read: %v", err)
	}
	request := f.request(ctx, r)
	request.New = guarded(is)
	if r.Operation == admissionv1.Update {
		was, err := readDeployment(r.OldObject.Raw)
		if err != nil {
			return badRequest("the old object cannot be read: %v", err)
		}
		request.Old = new(guarded(was))
	}
	return f.check(request)
}

// judgeScale judges a scale subresource, should a cluster serve one: it says how many replicas, not of which role, so every
// role is taken to change.
func (f fencer) judgeScale(ctx context.Context, r *admissionv1.AdmissionRequest) verdict {
	var scale autoscalingv1.Scale
	if err := json.Unmarshal(r.Object.Raw, &scale); err != nil {
		return badRequest("the scale cannot be read")
	}
	live, err := f.cluster.Target(ctx, r.Namespace, r.Name)
	if err != nil {
		return unavailable(err)
	}
	if live == nil {
		return badRequest("%s %s/%s to scale is not there", target.Kind, r.Namespace, r.Name)
	}
	request := f.request(ctx, r)
	request.Old, request.New = new(guarded(*live)), guarded(*live)
	request.New.Counts = make(map[string]int32, len(live.Roles))
	for _, role := range live.Roles {
		request.New.Counts[role.Name] = scale.Spec.Replicas
	}
	return f.check(request)
}

func (f fencer) check(request fence.Request) verdict {
	if refusal := fence.Check(request); refusal != nil {
		return fenced(refusal, request.Name)
	}
	return allowed()
}

func (f fencer) request(ctx context.Context, r *admissionv1.AdmissionRequest) fence.Request {
	return fence.Request{
		Namespace: r.Namespace, Name: r.Name,
		Decider: r.UserInfo.Username == f.deciderUser,
		Facts: fence.Facts{
			Scaler: func(name string) (*fence.Scaler, error) { return f.cluster.Scaler(ctx, r.Namespace, name) },
			Epoch:  func() (fence.Epoch, error) { return f.cluster.Epoch(ctx) },
		},
	}
}

func readDeployment(raw []byte) (target.Deployment, error) {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		return target.Deployment{}, err
	}
	return target.Parse(object)
}

func guarded(d target.Deployment) fence.Object {
	return fence.Object{UID: d.UID, Counts: d.Counts(), Annotations: d.Annotations}
}
