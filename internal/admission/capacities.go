package admission

import (
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// capacity is one field that a token algorithm needs for roles of one kind.
type capacity struct {
	path  *field.Path
	value *resource.Quantity
}

// capacities: the token algorithms need the capacity of every scaled kind but Encode, and a ratio from each Encode role to a
// Prefill or Decode role (spec "Token throughput", "Predictive").
func capacities(spec workerv1.ModelDeploymentScalerSpec, live target.Deployment) (errs field.ErrorList) {
	if tokenThroughput(spec.Algorithm) == nil {
		return nil
	}
	needed := capacitiesByKind(spec.Algorithm)
	reported := make(map[string]bool) // one error a field, however many roles need it
	for i, bounds := range spec.Roles {
		role, found := live.Role(bounds.Name)
		if !found {
			continue
		}
		if err := sizedByTokens(spec, live, i, role); err != nil {
			errs = append(errs, err)
		}
		for _, c := range needed[role.Kind] {
			if c.value == nil && !reported[c.path.String()] {
				reported[c.path.String()] = true
				errs = append(errs, field.Required(c.path, "role "+role.Name+" is of kind "+string(role.Kind)+", whose capacity per replica has to be given"))
			}
		}
	}
	return errs
}

// sizedByTokens judges roles whose kind has no capacity field.
func sizedByTokens(spec workerv1.ModelDeploymentScalerSpec, live target.Deployment, i int, role target.Role) *field.Error {
	path := rolesPath.Index(i).Child("name")
	if role.Kind == "" {
		return field.Invalid(path, role.Name, "the role is of a kind that the token algorithms do not know: use the algorithm Proportional")
	}
	sized := func(name string) bool {
		partner, _ := live.Role(name)
		return partner.Kind == observe.Prefill || partner.Kind == observe.Decode
	}
	if role.Kind == observe.Encode && !hasPartner(spec, role.Name, sized) {
		return field.Invalid(path, role.Name, "nothing sizes this role of kind Encode: add a ratio between it and a Prefill or Decode role to spec.ratios")
	}
	return nil
}

// capacitiesByKind is the table of what each kind needs.
func capacitiesByKind(a workerv1.Algorithm) map[observe.RoleKind][]capacity {
	if p := a.Predictive; p != nil {
		at, tokens := algorithmPath.Child("predictive"), p.TokenThroughput
		nested := at.Child("tokenThroughput")
		return map[observe.RoleKind][]capacity{
			observe.Server: {
				{nested.Child("serverTargetTokensPerSecond"), tokens.ServerTargetTokensPerSecond},
				{at.Child("serverTokenCapacityPerReplica"), p.ServerTokenCapacityPerReplica},
			},
			observe.Prefill: {
				{nested.Child("prefillTargetTokensPerSecond"), tokens.PrefillTargetTokensPerSecond},
				{at.Child("prefillTokenCapacityPerReplica"), p.PrefillTokenCapacityPerReplica},
			},
			observe.Decode: {
				{nested.Child("decodeTargetTokensPerSecond"), tokens.DecodeTargetTokensPerSecond},
				{at.Child("decodeTokenCapacityPerReplica"), p.DecodeTokenCapacityPerReplica},
			},
		}
	}
	at, tokens := algorithmPath.Child("tokenThroughput"), a.TokenThroughput
	return map[observe.RoleKind][]capacity{
		observe.Server:  {{at.Child("serverTargetTokensPerSecond"), tokens.ServerTargetTokensPerSecond}},
		observe.Prefill: {{at.Child("prefillTargetTokensPerSecond"), tokens.PrefillTargetTokensPerSecond}},
		observe.Decode:  {{at.Child("decodeTargetTokensPerSecond"), tokens.DecodeTargetTokensPerSecond}},
	}
}
