package decide

import (
	"fmt"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
)

// conflicts are the reasons why the policy and the current vector cannot be planned together (spec "Bounds and ratios"), in
// the order in which they are reported.
var conflicts = []func(*pass) *conflict{
	unclearBounds, // a role without bounds, twice, or with a floor above its ceiling
	outsideBounds, // a current count that its bounds exclude
	outsideBands,  // a current vector that a ratio band excludes
}

func (p *pass) findConflict() *conflict {
	for _, check := range conflicts {
		if c := check(p); c != nil {
			return c
		}
	}
	return nil
}

func unclearBounds(p *pass) *conflict {
	if len(p.roles) == 0 {
		return &conflict{workerv1.ReasonBoundsConflict, "the target has no roles"}
	}
	for i, r := range p.roles {
		entries := 0
		for _, b := range p.spec.Roles {
			if b.Name == r.Name {
				entries++
			}
		}
		switch {
		case p.role(r.Name) != p.roles[i]:
			return boundsConflict("role %s appears twice on the target", r.Name)
		case entries == 0:
			return boundsConflict("role %s of the target has no bounds: add it to spec.roles", r.Name)
		case entries > 1:
			return boundsConflict("role %s has bounds twice in spec.roles", r.Name)
		case r.floorBound() > r.bounds.MaxReplicas:
			return boundsConflict("role %s has a minReplicas above its maxReplicas", r.Name)
		}
	}
	return nil
}

func outsideBounds(p *pass) *conflict {
	for _, r := range p.roles {
		if r.Replicas < r.floorBound() || r.Replicas > r.bounds.MaxReplicas {
			return boundsConflict("role %s has %d replicas, outside its bounds of %d to %d",
				r.Name, r.Replicas, r.floorBound(), r.bounds.MaxReplicas)
		}
	}
	return nil
}

func outsideBands(p *pass) *conflict {
	broken := violated(p.bands, p.current())
	if broken == nil {
		return nil
	}
	return &conflict{workerv1.ReasonRatioConflict, fmt.Sprintf("the current counts break the ratio %s: adjust the ratio or the counts", broken)}
}

func boundsConflict(format string, args ...any) *conflict {
	return &conflict{workerv1.ReasonBoundsConflict, fmt.Sprintf(format, args...)}
}

// floorBound is minReplicas; omitted it is 1, and nothing scales to zero.
func (r *role) floorBound() int32 { return max(1, r.bounds.MinReplicas) }
