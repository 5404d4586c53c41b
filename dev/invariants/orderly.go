package invariants

import (
	"errors"
	"fmt"
	"maps"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// Limits are what every version of a target keeps.
type Limits struct {
	Roles  []workerv1.RoleBounds
	Ratios []workerv1.Ratio
	// Up and Down are the most that ordinary growth and shrinking move a role by in one write.
	Up, Down int32
}

// Commit is a version of a target that moved its counts.
type Commit struct {
	fence.DecisionID
	Term int64
	// Version is its place among the versions that were looked at.
	Version int
}

// Orderly checks that every version of one target, in order, kept bounds and ratio bands, that counts moved with a decision that
// says so and as its kind allows, and that terms and decisions went forward. It returns the commits, and everything that is
// wrong.
func Orderly(versions []target.Deployment, l Limits) (commits []Commit, err error) {
	if len(versions) == 0 {
		return nil, errors.New("no version was recorded")
	}
	o := orderly{moves: moves{Limits: l}, before: Vector(versions[0]), epochs: make(map[string]bool)}
	for i, version := range versions {
		if wrong := o.next(i, version); wrong != nil {
			err = errors.Join(err, fmt.Errorf("version %s of %s/%s: %w", version.ResourceVersion, version.Namespace, version.Name, wrong))
		}
	}
	return o.commits, err
}

// orderly is what is known of the versions so far.
type orderly struct {
	moves
	term    int64
	before  workerv1.Vector
	epochs  map[string]bool
	commits []Commit
}

func (o *orderly) next(i int, version target.Deployment) error {
	now := Vector(version)
	err := errors.Join(o.legal(now), o.forward(version))
	if maps.Equal(now, o.before) {
		return err
	}
	before := o.before
	o.before = now
	commit, wrong := o.commit(version)
	if wrong != nil {
		return errors.Join(err, wrong)
	}
	commit.Version = i
	err = errors.Join(err, o.check(commit.Kind, before, now), o.follows(commit))
	o.epochs[commit.Epoch] = true
	o.commits = append(o.commits, commit)
	return err
}

// forward checks the term of the binding, where there is one.
func (o *orderly) forward(version target.Deployment) error {
	text := version.Annotations[fence.BindingAnnotation]
	if text == "" {
		return nil
	}
	binding, err := fence.ParseBinding(text)
	if err != nil {
		return err
	}
	if binding.Term < o.term {
		return fmt.Errorf("the binding is of term %d after one of term %d", binding.Term, o.term)
	}
	o.term = binding.Term
	return nil
}

// commit of a version: its decision was written with the counts, under the term of the binding.
func (o *orderly) commit(version target.Deployment) (Commit, error) {
	decision, err := fence.ParseDecision(version.Annotations[fence.DecisionAnnotation])
	if err != nil {
		return Commit{}, fmt.Errorf("counts moved to %v: %w", Vector(version), err)
	}
	id, err := fence.ParseDecisionID(decision.DecisionID)
	switch {
	case err != nil:
		return Commit{}, err
	case !maps.Equal(decision.Vector, Vector(version)):
		return Commit{}, fmt.Errorf("counts moved to %v, and decision %s says %v", Vector(version), id, decision.Vector)
	case decision.Term != o.term:
		return Commit{}, fmt.Errorf("decision %s is of term %d under a binding of term %d", id, decision.Term, o.term)
	}
	return Commit{DecisionID: id, Term: decision.Term}, nil
}

// follows checks that a decision comes after the one before: another term begins another numbering, and a leader that was
// replaced never writes again.
func (o *orderly) follows(c Commit) error {
	if len(o.commits) == 0 {
		return nil
	}
	last := o.commits[len(o.commits)-1]
	switch {
	case c.Term == last.Term && c.Sequence <= last.Sequence:
		return fmt.Errorf("decision %s does not come after %s", c.DecisionID, last.DecisionID)
	case c.Epoch != last.Epoch && o.epochs[c.Epoch]:
		return fmt.Errorf("decision %s is of a leader that was replaced before", c.DecisionID)
	}
	return nil
}

// Vector is the count of every role.
func Vector(d target.Deployment) workerv1.Vector {
	v := workerv1.Vector{}
	for _, role := range d.Roles {
		v[role.Name] = role.Replicas
	}
	return v
}
