package fence

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	strictjson "sigs.k8s.io/json"
)

// Limits of what is accepted in an annotation. A ModelDeployment has at most 10 roles, a scaler 16 (D45); counts go to 1024.
const (
	maxPayload = 4096 // bytes
	maxRoles   = 16
	maxCount   = 1024
)

var (
	namePattern = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$`)
	rolePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	uidPattern  = regexp.MustCompile(`^[-A-Za-z0-9]{1,64}$`)
)

// String is the annotation's value.
func (b Binding) String() string { return encode(b) }

// String is the annotation's value. Roles are sorted, so that one decision has one spelling.
func (d Decision) String() string { return encode(d) }

func encode(v any) string {
	data, err := json.Marshal(v)
	if err != nil { // strings, integers and a map of them always marshal
		panic(err)
	}
	return string(data)
}

// ParseBinding reads the annotation's value strictly: an unknown or repeated field, a wrong type, anything out of its range
// is an error, because a binding that is understood by half names no owner.
func ParseBinding(value string) (Binding, error) {
	var b Binding
	if err := decode(value, &b); err != nil {
		return Binding{}, fmt.Errorf("reading the binding: %w", err)
	}
	if err := b.check(); err != nil {
		return Binding{}, fmt.Errorf("reading the binding: %w", err)
	}
	return b, nil
}

func (b Binding) check() error {
	switch {
	case !namePattern.MatchString(b.ScalerName):
		return errors.New("scalerName is not an object's name")
	case !uidPattern.MatchString(b.ScalerUID):
		return errors.New("scalerUID is not a UID")
	case b.Term < 1:
		return fmt.Errorf("term is %d, terms start at 1", b.Term)
	}
	return nil
}

// ParseDecision reads the annotation's value as strictly as ParseBinding does.
func ParseDecision(value string) (Decision, error) {
	var d Decision
	if err := decode(value, &d); err != nil {
		return Decision{}, fmt.Errorf("reading the decision: %w", err)
	}
	if err := d.check(); err != nil {
		return Decision{}, fmt.Errorf("reading the decision: %w", err)
	}
	return d, nil
}

func (d Decision) check() error {
	if _, err := ParseDecisionID(d.DecisionID); err != nil {
		return err
	}
	if d.Term < 1 {
		return fmt.Errorf("term is %d, terms start at 1", d.Term)
	}
	if len(d.Vector) == 0 || len(d.Vector) > maxRoles {
		return fmt.Errorf("vector has %d roles, not 1 to %d", len(d.Vector), maxRoles)
	}
	for role, count := range d.Vector {
		if !rolePattern.MatchString(role) {
			return errors.New("vector has a key that is not a role's name")
		}
		if count < 1 || count > maxCount {
			return fmt.Errorf("vector gives role %s %d replicas, not 1 to %d", role, count, maxCount)
		}
	}
	return nil
}

// decode is JSON without second thoughts: case matters, nothing unknown, nothing twice, nothing after the end.
func decode(value string, into any) error {
	if len(value) > maxPayload {
		return fmt.Errorf("%d bytes are more than the limit of %d", len(value), maxPayload)
	}
	unusual, err := strictjson.UnmarshalStrict([]byte(value), into)
	if err = errors.Join(append(unusual, err)...); err != nil {
		return fmt.Errorf("%.200s", err.Error()) // the value is anybody's: it must not fill a log or a condition
	}
	return nil
}
