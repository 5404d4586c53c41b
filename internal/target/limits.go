package target

import (
	"fmt"
	"strings"
)

// MaxNameLength is the longest name that fits a label and a Service.
const MaxNameLength = 63

// LongestName is the longest name that the owner of the deployment makes for a role at maxReplicas (spec "Limitations"). An
// instance of several Pods has numbered member names; names of single-Pod instances do not grow with the count, so that
// only the role's Service name is left.
func LongestName(deployment string, r Role, maxReplicas int32) string {
	if r.Size <= 1 {
		return deployment + "-" + r.Name
	}
	return fmt.Sprintf("%s-%s-r%d-m%d", deployment, r.Name, maxReplicas-1, r.Size-1)
}

// Collision is the role of d whose Service would have the name of an instance's Service of r at maxReplicas, such as a role
// "a-r3" beside the fourth instance of the role "a" of several Pods; empty when there is none.
func Collision(d Deployment, r Role, maxReplicas int32) string {
	if r.Size <= 1 {
		return ""
	}
	for _, other := range d.Roles {
		suffix, found := strings.CutPrefix(other.Name, r.Name+"-r")
		if ordinal, ok := decimal(suffix); found && ok && ordinal < int(maxReplicas) {
			return other.Name
		}
	}
	return ""
}
