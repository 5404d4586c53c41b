package fleet

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// delete tells a Pod to end, once.
func (p *pass) delete(ctx context.Context, pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		return
	}
	p.call(ctx, func(ctx context.Context) error {
		return p.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	})
}

// endPods finishes deletions as a kubelet would: some time after a Pod was told to end, it is gone. Its address is free then.
func (p *pass) endPods(ctx context.Context) {
	for uid, pod := range p.pods {
		if pod.DeletionTimestamp == nil {
			continue
		}
		if _, seen := p.dying[uid]; !seen {
			p.dying[uid] = p.now
		}
		if p.now.Sub(p.dying[uid]) < p.o.TerminationDelay {
			continue
		}
		p.listeners.shut(name{pod.Namespace, pod.Name}, true)
		p.call(ctx, func(ctx context.Context) error {
			return p.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
				GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &pod.UID},
			})
		})
	}
	for uid := range p.dying {
		if p.pods[uid] == nil {
			delete(p.dying, uid)
			p.addresses.giveBack(uid)
		}
	}
}

// strays are Pods and Workloads of instances that the world does not know, such as those of a deployment that is gone, or of
// an earlier run.
func (p *pass) strays(ctx context.Context) {
	known := make(map[string]bool)
	for _, r := range p.records {
		known[r.workload] = true
		for _, m := range r.members {
			known[m.uid] = true
		}
	}
	for uid, pod := range p.pods {
		if !known[uid] {
			p.delete(ctx, pod)
		}
	}
	for uid, w := range p.workloads {
		if !known[uid] && p.podsGone(w) {
			p.deleteWorkload(ctx, w)
		}
	}
}
