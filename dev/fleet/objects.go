package fleet

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/netip"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/sim"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// Labels and annotations of the contract that scaling does not read.
const (
	groupCountAnnotation   = "kueue.x-k8s.io/pod-group-total-count"
	roleHashAnnotation     = "kueue.x-k8s.io/role-hash"
	groupServingAnnotation = "kueue.x-k8s.io/pod-group-serving"
	admissionGate          = "kueue.x-k8s.io/admission"
)

// newPod is a Pod as the operator renders it, held back until its instance has quota.
func newPod(d deployment, i sim.Instance, index int) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, GenerateName: d.Name + "-" + i.Role.Name + "-",
			Labels: podLabels(d, i, index), Annotations: podAnnotations(d, i),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: target.GroupName + "/v1alpha1", Kind: target.Kind, Name: d.Name, UID: types.UID(d.UID), Controller: new(true),
			}},
		},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(bool),
			SchedulingGates:              []corev1.PodSchedulingGate{{Name: admissionGate}},
			Containers: []corev1.Container{{
				Name: target.EngineContainer, Image: "simulated-engine:development",
				Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: int32(d.port(i.Role.Name))}},
			}},
		},
	}
	if i.Role.Size > 1 {
		pod.GenerateName = ""
		pod.Name = fmt.Sprintf("%s-%s-r%d-m%d", d.Name, i.Role.Name, i.Ordinal, index)
		pod.Spec.Hostname = pod.Name
		pod.Spec.Subdomain = fmt.Sprintf("%s-%s-r%d", d.Name, i.Role.Name, i.Ordinal)
	}
	return pod
}

func podLabels(d deployment, i sim.Instance, index int) map[string]string {
	return map[string]string{
		target.NameLabel:      target.NameValue,
		target.InstanceLabel:  d.Name,
		target.ComponentLabel: i.Role.Name,
		target.RoleKindLabel:  strings.ToLower(string(kind(i.Role))),
		target.OrdinalLabel:   strconv.Itoa(i.Ordinal),
		target.MemberLabel:    strconv.Itoa(index),
		target.PodGroupLabel:  groupName(d, i),
		target.QueueLabel:     i.Role.InstanceType,
	}
}

// podAnnotations: a role with a command of its own is not scraped.
func podAnnotations(d deployment, i sim.Instance) map[string]string {
	annotations := map[string]string{
		groupCountAnnotation:   strconv.Itoa(int(i.Role.Size)),
		roleHashAnnotation:     i.Role.Name,
		groupServingAnnotation: "true",
	}
	if !i.Role.Unmanaged {
		annotations[target.ScrapeAnnotation] = "true"
		annotations[target.PathAnnotation] = "/metrics"
		annotations[target.PortAnnotation] = strconv.Itoa(d.port(i.Role.Name))
		annotations[target.SchemeAnnotation] = "http"
	}
	return annotations
}

// groupName of an instance, which is also its Workload's.
func groupName(d deployment, i sim.Instance) string {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s/%s/%s/%d", d.Namespace, d.Name, i.Role.Name, i.Ordinal)
	return fmt.Sprintf("gpustack-fnv64-%016x", hash.Sum64())
}

// kind of a role; a kind that is not known is treated as a Server.
func kind(r target.Role) observe.RoleKind { return cmp.Or(r.Kind, observe.Server) }

func nodeName(i sim.Instance, index int) string {
	return fmt.Sprintf("simulated-%s-%d", i.Role.InstanceType, i.ID*64+index)
}

// podStatus is what a kubelet reports of a Pod whose container runs. Times that are there already stay.
func podStatus(pod *corev1.Pod, i sim.Instance, address netip.Addr, ready bool, now time.Time) corev1.PodStatus {
	status := *pod.Status.DeepCopy()
	status.Phase = corev1.PodRunning
	status.HostIP, status.HostIPs = address.String(), []corev1.HostIP{{IP: address.String()}}
	status.PodIP, status.PodIPs = address.String(), []corev1.PodIP{{IP: address.String()}}
	if status.StartTime == nil {
		status.StartTime = new(metav1.NewTime(now))
	}
	for _, condition := range []struct {
		kind  corev1.PodConditionType
		holds bool
	}{{corev1.PodScheduled, true}, {corev1.PodInitialized, true}, {corev1.ContainersReady, ready}, {corev1.PodReady, ready}} {
		setPodCondition(&status, condition.kind, condition.holds, now)
	}
	setContainer(&status, pod, i, ready, now)
	return status
}

func setPodCondition(status *corev1.PodStatus, kind corev1.PodConditionType, holds bool, now time.Time) {
	value := corev1.ConditionFalse
	if holds {
		value = corev1.ConditionTrue
	}
	for n := range status.Conditions {
		if c := &status.Conditions[n]; c.Type == kind {
			if c.Status != value {
				*c = corev1.PodCondition{Type: kind, Status: value, LastTransitionTime: metav1.NewTime(now)}
			}
			return
		}
	}
	status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: value, LastTransitionTime: metav1.NewTime(now)})
}

// setContainer: another restart is another container.
func setContainer(status *corev1.PodStatus, pod *corev1.Pod, i sim.Instance, ready bool, now time.Time) {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s/%d", pod.UID, i.Restarts)
	id := fmt.Sprintf("containerd://%016x", hash.Sum64())
	started := metav1.NewTime(now)
	if len(status.ContainerStatuses) == 1 && status.ContainerStatuses[0].ContainerID == id && status.ContainerStatuses[0].State.Running != nil {
		started = status.ContainerStatuses[0].State.Running.StartedAt
	}
	container := pod.Spec.Containers[0]
	status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: container.Name, Image: container.Image, ImageID: container.Image, ContainerID: id,
		Ready: ready, Started: new(true), RestartCount: int32(i.Restarts),
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}},
	}}
}
