package stream

import (
	"errors"
	"fmt"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
)

// assembly puts the parts of an assignment together.
type assembly struct {
	assign  Assign
	started bool
	faults  []error
}

// add takes a part. When it was the last one, it returns the whole assignment and true, with an error that names each role
// that was refused: such a role is removed, since what the sampler holds of it is out of date. An error without an
// assignment is a breach of the protocol.
func (a *assembly) add(p *observationv1.Assign) (Assign, bool, error) {
	if a.started && (p.GetRevision() != a.assign.Revision || p.GetFull() != a.assign.Full) {
		return Assign{}, false, fmt.Errorf("part of revision %d in the middle of revision %d", p.GetRevision(), a.assign.Revision)
	}
	if len(a.assign.Upserts)+len(a.faults)+len(p.GetUpserts()) > maxRoles || len(a.assign.Removals)+len(p.GetRemovals()) > maxRoles {
		return Assign{}, false, fmt.Errorf("assignment of revision %d: more than %d roles", p.GetRevision(), maxRoles)
	}
	a.started, a.assign.Revision, a.assign.Full = true, p.GetRevision(), p.GetFull()
	a.upserts(p.GetUpserts())
	a.removals(p.GetRemovals())
	if p.GetMore() {
		return Assign{}, false, nil
	}
	whole, err := a.assign, errors.Join(a.faults...)
	*a = assembly{}
	return whole, true, err
}

func (a *assembly) upserts(list []*observationv1.RoleAssignment) {
	for _, p := range list {
		d := &decoder{}
		role := d.assignment(p)
		if d.err == nil {
			a.assign.Upserts = append(a.assign.Upserts, role)
			continue
		}
		a.faults = append(a.faults, fmt.Errorf("role %s: %w", role.Key, d.err))
		a.assign.Removals = append(a.assign.Removals, role.Key)
	}
}

func (a *assembly) removals(list []*observationv1.RoleKey) {
	for _, p := range list {
		d := &decoder{}
		if key := d.key(p); d.err == nil {
			a.assign.Removals = append(a.assign.Removals, key)
		} else {
			a.faults = append(a.faults, fmt.Errorf("removal %s: %w", key, d.err))
		}
	}
}
