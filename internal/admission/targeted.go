package admission

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// rolesOfTarget: every scaled role exists, exposes signals, and still has legal names at its maximum (spec "Limitations").
func rolesOfTarget(spec workerv1.ModelDeploymentScalerSpec, live target.Deployment) (errs field.ErrorList) {
	for i, bounds := range spec.Roles {
		path := rolesPath.Index(i)
		role, found := live.Role(bounds.Name)
		if !found {
			errs = append(errs, field.Invalid(path.Child("name"), bounds.Name,
				fmt.Sprintf("ModelDeployment %s has no such role, it has %s: correct the name, or remove the entry", live.Name, roleNames(live))))
			continue
		}
		errs = append(errs, managed(path.Child("name"), role)...)
		errs = append(errs, namesFit(path.Child("maxReplicas"), live, role, bounds.MaxReplicas)...)
	}
	return errs
}

// managed: a role with its own command, or of elastic width, has no signals that count independent replicas.
func managed(path *field.Path, role target.Role) (errs field.ErrorList) {
	if role.Unmanaged {
		errs = append(errs, field.Invalid(path, role.Name,
			"the role sets its own command, so its serving signals are unmanaged and it cannot be scaled: remove command from the role, or run the deployment without a scaler"))
	}
	if role.ElasticEP {
		errs = append(errs, field.Invalid(path, role.Name,
			"the role sets elasticEp, which grows the width of one replica instead of adding replicas, so it cannot be scaled: run the deployment without a scaler"))
	}
	return errs
}

func namesFit(path *field.Path, live target.Deployment, role target.Role, most int32) (errs field.ErrorList) {
	if name := target.LongestName(live.Name, role, most); len(name) > target.MaxNameLength {
		errs = append(errs, field.Invalid(path, most, fmt.Sprintf("at this maximum the name %s has %d characters, %d are allowed: "+
			"lower maxReplicas, or shorten the name of the deployment or the role", name, len(name), target.MaxNameLength)))
	}
	if other := target.Collision(live, role, most); other != "" {
		errs = append(errs, field.Invalid(path, most, fmt.Sprintf("at this maximum a replica's Service would take the name of the "+
			"Service of role %s: lower maxReplicas or rename that role", other)))
	}
	return errs
}

func roleNames(live target.Deployment) string {
	names := make([]string, 0, len(live.Roles))
	for _, r := range live.Roles {
		names = append(names, r.Name)
	}
	return strings.Join(names, ", ")
}

// adviceOnTarget warns about what will stop the planning although the policy itself is sound.
func adviceOnTarget(spec workerv1.ModelDeploymentScalerSpec, live target.Deployment) (warnings []string) {
	var missing []string
	for _, role := range live.Roles {
		i := slices.IndexFunc(spec.Roles, func(b workerv1.RoleBounds) bool { return b.Name == role.Name })
		if i < 0 {
			missing = append(missing, role.Name)
			continue
		}
		if b := spec.Roles[i]; role.Replicas < b.MinReplicas || role.Replicas > b.MaxReplicas {
			warnings = append(warnings, fmt.Sprintf("the present count of role %s, %d, is outside of %d to %d: planning stops with BoundsConflict "+
				"until the bounds include it", role.Name, role.Replicas, b.MinReplicas, b.MaxReplicas))
		}
	}
	if tokenThroughput(spec.Algorithm) != nil {
		warnings = append(warnings, adviceOnFollowers(spec, func(name string) bool {
			role, _ := live.Role(name)
			return role.Kind != observe.Encode
		})...)
	}
	if len(missing) > 0 {
		warnings = append(warnings, fmt.Sprintf("spec.roles has no bounds for %s of ModelDeployment %s: planning stops with "+
			"BoundsConflict until every role has bounds", strings.Join(missing, ", "), live.Name))
	}
	return warnings
}
