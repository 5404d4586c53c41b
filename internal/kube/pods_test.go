package kube

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// drawPod draws a Pod with everything that somebody reads, and some that nobody does.
func drawPod(t *rapid.T) *corev1.Pod {
	maybe := func(m map[string]string, key string, values ...string) {
		if v := rapid.SampledFrom(append(values, "")).Draw(t, key); v != "" {
			m[key] = v
		}
	}
	status := func(label string) corev1.ConditionStatus {
		return rapid.SampledFrom([]corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown}).Draw(t, label)
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "md-server-0", UID: "pod", Labels: map[string]string{"other": "x"}, Annotations: map[string]string{"other": "x"}}}
	maybe(p.Labels, target.InstanceLabel, "md")
	maybe(p.Labels, target.ComponentLabel, "server", "server", "stranger")
	maybe(p.Labels, target.OrdinalLabel, "0", "0", "01")
	maybe(p.Labels, target.MemberLabel, "0", "1")
	maybe(p.Labels, target.EndpointEligibleLabel, "true")
	maybe(p.Labels, target.RouterLabel, "true")
	maybe(p.Labels, target.QueueLabel, "queue")
	maybe(p.Annotations, target.ScrapeAnnotation, "true", "true")
	maybe(p.Annotations, target.PortAnnotation, "8000", "8000")
	maybe(p.Annotations, target.PathAnnotation, "/m")
	maybe(p.Annotations, target.SchemeAnnotation, "https")
	if rapid.Bool().Draw(t, "deleting") {
		p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "Other", UID: "1"}, {Kind: rapid.SampledFrom([]string{target.Kind, "Other"}).Draw(t, "owner"), UID: "1", Controller: &isController}}
	p.Spec.NodeName = rapid.SampledFrom([]string{"", "node"}).Draw(t, "node")
	p.Status.PodIP = rapid.SampledFrom([]string{"", "10.0.0.1"}).Draw(t, "ip")
	for _, kind := range []corev1.PodConditionType{corev1.PodReady, corev1.PodScheduled, corev1.ContainersReady} {
		if rapid.Bool().Draw(t, string(kind)) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: status(string(kind) + " status")})
		}
	}
	for _, name := range []string{"sidecar", "main"} {
		if rapid.Bool().Draw(t, name) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name, Image: "image"})
			if rapid.Bool().Draw(t, name+" reported") {
				p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, ContainerID: "id", RestartCount: 3, Image: "image"})
			}
		}
	}
	return p
}

func TestACachedPodIsReadAsThePodItself(t *testing.T) {
	for _, unmanaged := range []bool{false, true} {
		d := target.Deployment{Namespace: "ns", Name: "md", UID: "1", Roles: []target.Role{{Name: "server", Kind: observe.Server, Replicas: 1, Size: 1, Unmanaged: unmanaged}}}
		rapid.Check(t, func(t *rapid.T) {
			p := drawPod(t)
			cached := keepPod(p.DeepCopy()).(*cachedPod)
			require.Equal(t, p.Labels[target.InstanceLabel], cached.label(target.InstanceLabel))
			workloads := []target.Workload{{Name: "w", PodUIDs: []string{"pod"}, Admitted: rapid.Bool().Draw(t, "admitted")}}
			served := rapid.Bool().Draw(t, "served")
			require.Equal(t, target.Instances(d, []*corev1.Pod{p}, workloads, served), target.Instances(d, []*corev1.Pod{cached.pod()}, workloads, served))
		})
	}
}
