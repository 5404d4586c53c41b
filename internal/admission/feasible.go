package admission

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/decide"
)

var ratiosPath = specPath.Child("ratios")

// feasible refuses ratios that no counts within the bounds can satisfy, and only when that is proved (spec "Bounds and ratios").
// It names the fewest ratios that contradict each other, with the roles they bind.
func feasible(spec workerv1.ModelDeploymentScalerSpec) (errs field.ErrorList, warnings []string) {
	conflict, decided := decide.Feasible(spec.Roles, spec.Ratios)
	switch {
	case !decided:
		return nil, []string{"whether any counts satisfy all of spec.ratios could not be found out within the limit of the search: if planning " +
			"stops with RatioConflict, remove ratios or widen their min and max"}
	case conflict == nil || len(conflict.Ratios) == 0: // a minimum over its maximum is refused by a rule of the CRD
		return nil, nil
	}
	first, others := conflict.Ratios[0], conflict.Ratios[1:]
	value, path := decide.BandOf(spec.Ratios[first]), ratiosPath.Index(first)
	roles := boundsInWords(spec, conflict.Roles)
	if len(others) == 0 {
		return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("no replica counts within the bounds of %s are in this ratio, which can "+
			"only be %s there: widen min and max of the ratio, or the bounds of these roles", roles, reachable(spec, spec.Ratios[first])))}, nil
	}
	var together []string
	for _, i := range others {
		together = append(together, fmt.Sprintf("%s (spec.ratios[%d])", decide.BandOf(spec.Ratios[i]), i))
	}
	return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("no replica counts within the bounds of %s satisfy this ratio together with %s: "+
		"widen min and max of one of these ratios, or the bounds of these roles", roles, inWords(together)))}, nil
}

// reachable is the range of a ratio that the bounds leave.
func reachable(spec workerv1.ModelDeploymentScalerSpec, ratio workerv1.Ratio) string {
	var over, under workerv1.RoleBounds
	for _, b := range spec.Roles {
		switch b.Name {
		case ratio.NumeratorRole:
			over = b
		case ratio.DenominatorRole:
			under = b
		}
	}
	return fmt.Sprintf("%.3g to %.3g", float64(over.MinReplicas)/float64(under.MaxReplicas), float64(over.MaxReplicas)/float64(under.MinReplicas))
}

// adviceOnRatios warns when the target's present counts are what stops the planning.
func adviceOnRatios(spec workerv1.ModelDeploymentScalerSpec, counts workerv1.Vector) []string {
	i := decide.Broken(spec.Ratios, counts)
	if i < 0 {
		return nil
	}
	r := spec.Ratios[i]
	return []string{fmt.Sprintf("the present counts of roles %s and %s, %d and %d, are not %s (spec.ratios[%d]): planning stops with "+
		"RatioConflict until the ratio includes them", r.NumeratorRole, r.DenominatorRole, counts[r.NumeratorRole], counts[r.DenominatorRole],
		decide.BandOf(r), i)}
}

func boundsInWords(spec workerv1.ModelDeploymentScalerSpec, roles []int) string {
	var words []string
	for _, i := range roles {
		words = append(words, fmt.Sprintf("%s (%d to %d)", spec.Roles[i].Name, spec.Roles[i].MinReplicas, spec.Roles[i].MaxReplicas))
	}
	return inWords(words)
}

// inWords lists: "a, b and c".
func inWords(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
