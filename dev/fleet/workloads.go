package fleet

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gpustack.ai/model-deployment-scaler/internal/sim"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// queue plays Kueue for one instance: its Workload is composed when all its Pods exist, and admitted when the world says so.
func (p *pass) queue(ctx context.Context, s state, i sim.Instance, r *record) {
	for _, m := range r.members {
		if m.uid == "" {
			return
		}
	}
	if r.workload == "" {
		p.compose(ctx, s, i, r)
		return
	}
	w := p.workloads[r.workload]
	if w == nil || target.ParseWorkload(w).Admitted == i.Admitted() && hasConditions(w) {
		return
	}
	p.call(ctx, func(ctx context.Context) error {
		changed := w.DeepCopy()
		setConditions(changed, i.Admitted(), p.now)
		_, err := p.dynamic.Resource(workloads).Namespace(w.GetNamespace()).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
		return err
	})
}

func (p *pass) compose(ctx context.Context, s state, i sim.Instance, r *record) {
	p.call(ctx, func(ctx context.Context) error {
		w, err := p.dynamic.Resource(workloads).Namespace(s.Namespace).Create(ctx, newWorkload(s.deployment, i, r.members), metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("creating the Workload of %s/%s, %s/%d: %w", s.Namespace, s.Name, i.Role.Name, i.Ordinal, err)
		}
		r.workload = string(w.GetUID())
		return nil
	})
}

// evict tells of an eviction: the Workload says so first, then the Pods are replaced. What is left of the old ones becomes stray,
// with their Workload.
func (p *pass) evict(ctx context.Context, r *record, i sim.Instance) bool {
	if w := p.workloads[r.workload]; w != nil && !p.call(ctx, func(ctx context.Context) error {
		changed := w.DeepCopy()
		setEvicted(changed, p.now)
		_, err := p.dynamic.Resource(workloads).Namespace(w.GetNamespace()).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
		return err
	}) {
		return false
	}
	for _, m := range r.members {
		p.listeners.shut(m.pod, true)
	}
	*r = record{key: r.key, members: make([]member, len(r.members)), evictions: i.Evictions}
	return true
}

func (p *pass) deleteWorkload(ctx context.Context, w *unstructured.Unstructured) bool {
	uid := w.GetUID()
	return p.call(ctx, func(ctx context.Context) error {
		return p.dynamic.Resource(workloads).Namespace(w.GetNamespace()).Delete(ctx, w.GetName(), metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &uid},
		})
	})
}

// podsGone says that all Pods that own a Workload are gone; one that no Pod owns is somebody else's.
func (p *pass) podsGone(w *unstructured.Unstructured) bool {
	owners := target.ParseWorkload(w).PodUIDs
	for _, uid := range owners {
		if p.pods[uid] != nil {
			return false
		}
	}
	return len(owners) > 0
}
