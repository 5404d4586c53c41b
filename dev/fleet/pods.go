package fleet

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gpustack.ai/model-deployment-scaler/internal/sim"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// member is one Pod of an instance; without a UID it is still to be created.
type member struct {
	pod     name
	uid     string
	created time.Time
	address netip.Addr
}

// cacheLag after which a Pod that the cache does not show is asked for.
const cacheLag = 3 * time.Second

func (p *pass) create(ctx context.Context, s state, i sim.Instance, m *member, index int) {
	p.call(ctx, func(ctx context.Context) error {
		pod, err := p.kube.CoreV1().Pods(s.Namespace).Create(ctx, newPod(s.deployment, i, index), metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("creating a Pod of %s/%s, %s/%d: %w", s.Namespace, s.Name, i.Role.Name, i.Ordinal, err)
		}
		*m = member{pod: name{pod.Namespace, pod.Name}, uid: string(pod.UID), created: p.now}
		return nil
	})
}

// lost says that a Pod was taken from outside: it is gone or going, and nobody here wanted that.
func (p *pass) lost(ctx context.Context, m *member) bool {
	if pod := p.pods[m.uid]; pod != nil {
		return pod.DeletionTimestamp != nil
	}
	if p.now.Sub(m.created) < cacheLag {
		return false
	}
	gone := false
	p.call(ctx, func(ctx context.Context) error {
		pod, err := p.kube.CoreV1().Pods(m.pod.namespace).Get(ctx, m.pod.name, metav1.GetOptions{})
		gone = apierrors.IsNotFound(err) || err == nil && string(pod.UID) != m.uid
		return err
	})
	return gone
}

// run plays scheduler and kubelet for one Pod.
func (p *pass) run(ctx context.Context, s state, i sim.Instance, m *member, index int) {
	pod := p.pods[m.uid]
	if pod == nil || !i.Admitted() {
		return // not seen yet, or gated
	}
	if pod.Spec.NodeName == "" {
		p.schedule(ctx, pod, i, index)
		return
	}
	if !m.address.IsValid() {
		if m.address = p.address(m.uid); !m.address.IsValid() {
			return
		}
	}
	p.mark(ctx, pod, i, index)
	ready := i.State == sim.Ready && p.serve(s, i, m, index)
	if !ready {
		p.listeners.shut(m.pod, false)
	}
	status := podStatus(pod, i, m.address, ready, p.now)
	if equality.Semantic.DeepEqual(status, pod.Status) {
		return
	}
	p.call(ctx, func(ctx context.Context) error {
		changed := pod.DeepCopy()
		changed.Status = status
		_, err := p.kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
		return err
	})
}

func (p *pass) address(uid string) netip.Addr {
	address, err := p.addresses.take(uid)
	if err != nil {
		p.failures = append(p.failures, err)
	}
	return address
}

func (p *pass) serve(s state, i sim.Instance, m *member, index int) bool {
	address := netip.AddrPortFrom(m.address, uint16(s.port(i.Role.Name)))
	if err := p.listeners.open(m.pod, address, s.key(), i.ID, index == 0); err != nil {
		p.failures = append(p.failures, err)
		return false
	}
	return true
}

// schedule opens the gate of a Pod and binds it to a node, which nobody checks the existence of.
func (p *pass) schedule(ctx context.Context, pod *corev1.Pod, i sim.Instance, index int) {
	pods := p.kube.CoreV1().Pods(pod.Namespace)
	if len(pod.Spec.SchedulingGates) > 0 && !p.call(ctx, func(ctx context.Context) error {
		_, err := pods.Patch(ctx, pod.Name, types.JSONPatchType, []byte(`[{"op":"remove","path":"/spec/schedulingGates"}]`), metav1.PatchOptions{})
		return err
	}) {
		return
	}
	p.call(ctx, func(ctx context.Context) error {
		return pods.Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: nodeName(i, index)},
		}, metav1.CreateOptions{})
	})
}

// mark or unmark a leader as answering requests.
func (p *pass) mark(ctx context.Context, pod *corev1.Pod, i sim.Instance, index int) {
	eligible := i.Eligible && index == 0
	if marked := pod.Labels[target.EndpointEligibleLabel] == "true"; marked == eligible {
		return
	}
	value := "null"
	if eligible {
		value = `"true"`
	}
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"labels":{%q:%s}}}`, pod.UID, target.EndpointEligibleLabel, value)
	p.call(ctx, func(ctx context.Context) error {
		_, err := p.kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
}
