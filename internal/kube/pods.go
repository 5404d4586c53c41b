package kube

import (
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpustack.ai/model-deployment-scaler/internal/target"
)

// cachedPod is a Pod as the cache keeps it: what target.Instances and the list of samplers read, at a third of the size of a
// Pod that has nothing else. A large fleet has tens of thousands of them.
type cachedPod struct {
	metav1.ObjectMeta   // identity and controller
	labels, annotations []pair
	node, ip            string
	ready, scheduled    corev1.ConditionStatus // empty: not reported
	containers          []container
}

type pair struct{ key, value string }

// container is a container of the spec with its status, when there is one.
type container struct {
	name, id string
	restarts int32
	reported bool
}

var (
	podLabels = []string{target.InstanceLabel, target.ComponentLabel, target.OrdinalLabel, target.MemberLabel,
		target.EndpointEligibleLabel, target.RouterLabel, target.QueueLabel}
	podAnnotations = []string{target.ScrapeAnnotation, target.PortAnnotation, target.PathAnnotation, target.SchemeAnnotation}
)

func keepPod(p *corev1.Pod) any {
	kept := &cachedPod{
		ObjectMeta: identity(p), labels: pairs(p.Labels, podLabels), annotations: pairs(p.Annotations, podAnnotations),
		node: shared(p.Spec.NodeName), ip: p.Status.PodIP,
	}
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		kept.OwnerReferences = []metav1.OwnerReference{{Kind: shared(owner.Kind), UID: shared(owner.UID), Controller: &isController}}
	}
	for _, c := range p.Status.Conditions {
		switch c.Type {
		case corev1.PodReady:
			kept.ready = shared(c.Status)
		case corev1.PodScheduled:
			kept.scheduled = shared(c.Status)
		}
	}
	for _, c := range p.Spec.Containers {
		kept.containers = append(kept.containers, containerOf(c.Name, p.Status.ContainerStatuses))
	}
	return kept
}

var isController = true

func containerOf(name string, statuses []corev1.ContainerStatus) container {
	i := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == name })
	if i < 0 {
		return container{name: shared(name)}
	}
	return container{name: shared(name), id: statuses[i].ContainerID, restarts: statuses[i].RestartCount, reported: true}
}

// pairs are the entries of all that are wanted, in the order of wanted.
func pairs(all map[string]string, wanted []string) []pair {
	list := make([]pair, 0, len(wanted))
	for _, key := range wanted {
		if value, found := all[key]; found {
			list = append(list, pair{key, shared(value)})
		}
	}
	return slices.Clip(slices.Clone(list))
}

// shared is a text that many objects have, once.
func shared[T ~string](s T) T { return unique.Make(s).Value() }

// pod is the Pod with what is kept of it.
func (c *cachedPod) pod() *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: c.ObjectMeta}
	p.Labels, p.Annotations = mapOf(c.labels), mapOf(c.annotations)
	p.Spec.NodeName, p.Status.PodIP = c.node, c.ip
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: c.ready}, {Type: corev1.PodScheduled, Status: c.scheduled}}
	for _, of := range c.containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: of.name})
		if of.reported {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses,
				corev1.ContainerStatus{Name: of.name, ContainerID: of.id, RestartCount: of.restarts})
		}
	}
	return p
}

func mapOf(pairs []pair) map[string]string {
	m := make(map[string]string, len(pairs))
	for _, p := range pairs {
		m[p.key] = p.value
	}
	return m
}

// label of the Pod; empty when it has none.
func (c *cachedPod) label(key string) string {
	for _, p := range c.labels {
		if p.key == key {
			return p.value
		}
	}
	return ""
}
