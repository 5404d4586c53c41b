package admission

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// scalerValidator refuses policies that can never plan.
type scalerValidator struct{ cluster Cluster }

// judge skips writes that leave the spec alone, and objects under deletion: a finalizer must go whatever the rules have
// become (D46).
func (v scalerValidator) judge(ctx context.Context, r *admissionv1.AdmissionRequest) verdict {
	if r.Operation != admissionv1.Create && r.Operation != admissionv1.Update {
		return badRequest("this webhook judges CREATE and UPDATE, not %.20q", r.Operation)
	}
	if r.Kind.Group != workerv1.GroupName || r.Kind.Kind != workerv1.Kind {
		return badRequest("this webhook judges %s, not %.100q of group %.100q", workerv1.Kind, r.Kind.Kind, r.Kind.Group)
	}
	scaler, _, err := readScaler(r.Object.Raw)
	if err != nil {
		return badRequest("the scaler cannot be read: %v", err)
	}
	if scaler.DeletionTimestamp != nil || nothingToJudge(scaler.Spec, r.OldObject.Raw) {
		return allowed()
	}
	live, err := v.target(ctx, r, scaler.Spec)
	if err != nil {
		return unavailable(err)
	}
	errs, warnings := Validate(scaler.Spec, live)
	if len(errs) > 0 {
		return invalid(r.Name, errs, warnings)
	}
	return allowed(warnings...)
}

// target to judge the policy against. An update that suspends is not judged against it: suspending is the way out that
// refusals name, so it must work whatever the target has become meanwhile; the update that resumes is judged.
func (v scalerValidator) target(ctx context.Context, r *admissionv1.AdmissionRequest, spec workerv1.ModelDeploymentScalerSpec,
) (*target.Deployment, error) {
	if r.Operation == admissionv1.Update && spec.Suspend {
		return nil, nil
	}
	return v.cluster.Target(ctx, r.Namespace, spec.TargetRef.Name)
}

// nothingToJudge says that a write leaves the old spec as it was, or does no more than let go of the target: suspending and
// Shadow are the ways out that refusals name, so they work also for a policy that has become wrong. An old object that cannot
// be read, or none, is another.
func nothingToJudge(is workerv1.ModelDeploymentScalerSpec, old []byte) bool {
	if len(old) == 0 {
		return false
	}
	was, _, err := readScaler(old)
	if err != nil {
		return false
	}
	if is.Suspend || is.Mode == workerv1.ModeShadow && !was.Spec.Suspend {
		was.Spec.Suspend, was.Spec.Mode = is.Suspend, is.Mode
	}
	return equality.Semantic.DeepEqual(was.Spec, is)
}

// Validate judges a policy with its defaults in, beyond what the schema and the rules of the CRD say. It returns all errors
// at once, and warnings about what is allowed but will not work as it looks. live is nil when the target is not there; then
// what depends on it is not judged (spec "Resource").
func Validate(spec workerv1.ModelDeploymentScalerSpec, live *target.Deployment) (field.ErrorList, []string) {
	errs, warnings := feasible(spec)
	errs = append(coupledRoles(spec), errs...)
	warnings = append(adviceOnPolicy(spec), warnings...)
	if live != nil {
		errs = append(errs, rolesOfTarget(spec, *live)...)
		errs = append(errs, capacities(spec, *live)...)
		warnings = append(warnings, adviceOnTarget(spec, *live)...)
		warnings = append(warnings, adviceOnRatios(spec, live.Counts())...)
	}
	return errs, warnings
}
