package fleet

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"gpustack.ai/model-deployment-scaler/internal/sim"
)

// callTimeout of one request to the API server.
const callTimeout = 5 * time.Second

// record is what the fleet has put into the cluster for one instance.
type record struct {
	key       sim.Key
	members   []member
	workload  string // UID; empty before it is created
	evictions int    // of the instance, as far as the cluster knows
}

// compare writes the difference between the world and the cluster. A server that cannot be reached ends the pass; the next
// tick tries again.
func (f *Fleet) compare(ctx context.Context, c *caches) {
	v := c.view()
	pass := &pass{Fleet: f, view: v, now: time.Now()}
	states := f.follow(v.deployments)
	pass.forget(states)
	for _, s := range states {
		for _, i := range s.instances {
			pass.instance(ctx, s, i)
		}
		pass.status(ctx, s)
	}
	pass.endPods(ctx)
	pass.strays(ctx)
	f.report(ctx, errors.Join(pass.failures...))
}

// pass is one comparison.
type pass struct {
	*Fleet
	view
	now      time.Time
	failures []error
	down     bool // the server cannot be reached: no more calls in this pass
}

// call the API server. It says whether that went well; failures that the next pass will see for itself are not kept.
func (p *pass) call(ctx context.Context, do func(ctx context.Context) error) bool {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if p.down || ctx.Err() != nil {
		return false
	}
	err := do(ctx)
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return true
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
	case errors.As(err, &status) && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err):
		p.failures = append(p.failures, err)
	default:
		p.down = true
		p.failures = append(p.failures, err)
	}
	return false
}

// report says when trouble begins and ends, not at every tick in between.
func (f *Fleet) report(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case err != nil && !f.trouble:
		f.o.Log.Warn("could not bring the cluster in line with the world; trying again at every tick", zap.Error(err))
	case err == nil && f.trouble:
		f.o.Log.Info("brought the cluster in line with the world again")
	}
	f.trouble = err != nil
}

// forget the records of instances that the world no longer has; what they left becomes stray.
func (p *pass) forget(states []state) {
	alive := make(map[int]bool)
	for _, s := range states {
		for _, i := range s.instances {
			alive[i.ID] = true
		}
	}
	for id, r := range p.records {
		if alive[id] {
			continue
		}
		for _, m := range r.members {
			p.listeners.shut(m.pod, true)
		}
		delete(p.records, id)
		p.mu.Lock()
		delete(p.left, id)
		p.mu.Unlock()
	}
}

// instance brings the objects of one instance in line with its state.
func (p *pass) instance(ctx context.Context, s state, i sim.Instance) {
	r := p.records[i.ID]
	if r == nil {
		r = &record{key: s.key(), members: make([]member, i.Role.Size)}
		p.records[i.ID] = r
	}
	switch i.State {
	case sim.Deleting:
		p.remove(ctx, r, i)
	case sim.Settling:
		p.release(ctx, r, i)
	default:
		if r.evictions == i.Evictions || p.evict(ctx, r, i) {
			p.keep(ctx, s, i, r)
		}
	}
}

// keep an instance that should be there. Losing one of its Pods loses it.
func (p *pass) keep(ctx context.Context, s state, i sim.Instance, r *record) {
	for index := range r.members {
		if m := &r.members[index]; m.uid == "" {
			p.create(ctx, s, i, m, index)
		} else if p.lost(ctx, m) {
			p.mu.Lock()
			p.world.Lose(r.key, i.ID)
			p.mu.Unlock()
			return
		} else {
			p.run(ctx, s, i, m, index)
		}
	}
	p.queue(ctx, s, i, r)
}

// remove deletes the Pods of an instance, and says when they are gone.
func (p *pass) remove(ctx context.Context, r *record, i sim.Instance) {
	gone := true
	for _, m := range r.members {
		p.listeners.shut(m.pod, true)
		if pod := p.pods[m.uid]; pod != nil {
			gone = false
			p.delete(ctx, pod)
		}
	}
	p.tell(i.ID, func(l *left) { l.pods = gone })
}

// release deletes the Workload of an instance whose Pods are gone.
func (p *pass) release(ctx context.Context, r *record, i sim.Instance) {
	w := p.workloads[r.workload]
	gone := w == nil || p.deleteWorkload(ctx, w)
	p.tell(i.ID, func(l *left) { l.workload = gone })
}

func (p *pass) tell(id int, change func(*left)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.left[id]
	change(&l)
	p.left[id] = l
}
