package target

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// endpoints are the members of a ready instance that answer for it: its leader, and the members that their owner marked as
// answering for their own load (D1). A member whose annotations do not say where its metrics are has no endpoint.
func endpoints(ordinal int, members []*corev1.Pod) []observe.Pod {
	var pods []observe.Pod
	for index, member := range members {
		if index > 0 && member.Labels[EndpointEligibleLabel] != "true" {
			continue
		}
		if pod, ok := endpoint(ordinal, member); ok {
			pods = append(pods, pod)
		}
	}
	return pods
}

func endpoint(ordinal int, pod *corev1.Pod) (observe.Pod, bool) {
	port, readable := decimal(pod.Annotations[PortAnnotation])
	scheme := orDefault(pod.Annotations[SchemeAnnotation], "http")
	path := orDefault(pod.Annotations[PathAnnotation], "/metrics")
	_, err := netip.ParseAddr(pod.Status.PodIP)
	ok := pod.Annotations[ScrapeAnnotation] == "true" &&
		readable && port >= 1 && port <= 65535 &&
		(scheme == "http" || scheme == "https") &&
		strings.HasPrefix(path, "/") && err == nil
	return observe.Pod{
		Name:        pod.Name,
		UID:         string(pod.UID),
		Incarnation: incarnation(pod),
		Ordinal:     ordinal,
		Address:     pod.Status.PodIP,
		Port:        port,
		Scheme:      scheme,
		Path:        path,
		Node:        pod.Spec.NodeName,
	}, ok
}

// incarnation changes when the engine's container restarts: its ID and restart count.
func incarnation(pod *corev1.Pod) string {
	name := engineContainer(pod)
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == name {
			return fmt.Sprintf("%s#%d", status.ContainerID, status.RestartCount)
		}
	}
	return ""
}

// engineContainer is `main`, else the first.
func engineContainer(pod *corev1.Pod) string {
	for _, container := range pod.Spec.Containers {
		if container.Name == EngineContainer {
			return container.Name
		}
	}
	if len(pod.Spec.Containers) > 0 {
		return pod.Spec.Containers[0].Name
	}
	return EngineContainer
}

func orDefault(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}
