package admission

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

var (
	specPath      = field.NewPath("spec")
	rolesPath     = specPath.Child("roles")
	algorithmPath = specPath.Child("algorithm")
)

// coupledRoles: under Proportional every scaled role needs a target or a direct ratio to a role that has one (spec
// "Proportional"). The token algorithms size roles by kind, which only the target tells: see capacities.
func coupledRoles(spec workerv1.ModelDeploymentScalerSpec) (errs field.ErrorList) {
	if spec.Algorithm.Proportional == nil {
		return nil
	}
	targeted := hasTarget(spec)
	for i, role := range spec.Roles {
		if !targeted(role.Name) && !hasPartner(spec, role.Name, targeted) {
			errs = append(errs, field.Invalid(rolesPath.Index(i).Child("name"), role.Name,
				"nothing sizes this role: add it to spec.algorithm.proportional.roleTargets, or a ratio between it and a role listed there"))
		}
	}
	return errs
}

// hasTarget says of a role whether Proportional sizes it by a target of its own.
func hasTarget(spec workerv1.ModelDeploymentScalerSpec) func(role string) bool {
	return func(role string) bool {
		return spec.Algorithm.Proportional != nil && slices.ContainsFunc(spec.Algorithm.Proportional.RoleTargets,
			func(t workerv1.RoleTarget) bool { return t.Name == role })
	}
}

// adviceOnFollowers warns about roles that another one sizes by a ratio without target: they move only when its min and max
// make them (D21).
func adviceOnFollowers(spec workerv1.ModelDeploymentScalerSpec, sized func(role string) bool) (warnings []string) {
	aimed := spec
	aimed.Ratios = slices.DeleteFunc(slices.Clone(spec.Ratios), func(r workerv1.Ratio) bool { return r.Target == nil })
	for _, role := range spec.Roles {
		if !sized(role.Name) && hasPartner(spec, role.Name, sized) && !hasPartner(aimed, role.Name, sized) {
			warnings = append(warnings, fmt.Sprintf("role %s follows another role by a ratio without target, so it moves only when min or max "+
				"of the ratio make it: give the ratio a target", role.Name))
		}
	}
	return warnings
}

// hasPartner says whether a ratio, in either direction, couples the role directly to one that is sized.
func hasPartner(spec workerv1.ModelDeploymentScalerSpec, role string, sized func(role string) bool) bool {
	return slices.ContainsFunc(spec.Ratios, func(r workerv1.Ratio) bool {
		return r.NumeratorRole == role && sized(r.DenominatorRole) || r.DenominatorRole == role && sized(r.NumeratorRole)
	})
}

// adviceOnPolicy warns about policies that are legal and will surprise.
func adviceOnPolicy(spec workerv1.ModelDeploymentScalerSpec) (warnings []string) {
	if t := tokenThroughput(spec.Algorithm); t != nil && t.PanicWindowSeconds >= t.StableWindowSeconds {
		warnings = append(warnings, fmt.Sprintf("panicWindowSeconds (%d) is not shorter than stableWindowSeconds (%d): bursts are noticed no sooner than by the stable window, shorten panicWindowSeconds",
			t.PanicWindowSeconds, t.StableWindowSeconds))
	}
	priority := spec.Rebalance.Policy == workerv1.RebalancePriority
	if priority && len(spec.Rebalance.Priority) < 2 {
		warnings = append(warnings, "spec.rebalance.priority lists fewer than two roles: under the policy Priority no role can give or take")
	}
	if !priority && len(spec.Rebalance.Priority) > 0 {
		warnings = append(warnings, "spec.rebalance.priority has no effect unless spec.rebalance.policy is Priority")
	}
	if spec.Algorithm.Proportional != nil {
		warnings = append(warnings, adviceOnFollowers(spec, hasTarget(spec))...)
	}
	return warnings
}

// tokenThroughput is the block that the selected algorithm uses; nil for Proportional.
func tokenThroughput(a workerv1.Algorithm) *workerv1.TokenThroughput {
	if a.Predictive != nil {
		return &a.Predictive.TokenThroughput
	}
	return a.TokenThroughput
}
