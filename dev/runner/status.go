package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// probePeriod is shorter than the manifests': a development cluster should not wait for a kubelet's patience.
const probePeriod = 250 * time.Millisecond

// keepStatus probes the program and reports what changed, until ctx ends. A report that fails is made again.
func (p *pod) keepStatus(ctx context.Context) error {
	var reported corev1.PodStatus
	return every(ctx, probePeriod, func() {
		ready := p.probe(ctx)
		p.set(func() { p.ready = ready && p.process != nil })
		if status := p.status(); !equality.Semantic.DeepEqual(reported, status) && p.report(ctx, status) == nil {
			reported = status
		}
	})
}

// probe does the readiness probe of the container; one without is ready as soon as it runs.
func (p *pod) probe(ctx context.Context) bool {
	c := p.object.Spec.Containers[0]
	if c.ReadinessProbe == nil || c.ReadinessProbe.HTTPGet == nil {
		return true
	}
	get := c.ReadinessProbe.HTTPGet
	ctx, cancel := context.WithTimeout(ctx, max(1, time.Duration(c.ReadinessProbe.TimeoutSeconds))*time.Second)
	defer cancel()
	url := fmt.Sprintf("http://%s%s", net.JoinHostPort(p.ip, fmt.Sprint(portNumber(c, get.Port.String()))), get.Path)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := prober.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode >= 200 && response.StatusCode < 400
}

var prober = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// portNumber finds a container port by name or number; 0 when there is none.
func portNumber(c corev1.Container, name string) int32 {
	for _, port := range c.Ports {
		if port.Name == name || fmt.Sprint(port.ContainerPort) == name {
			return port.ContainerPort
		}
	}
	return 0
}

// status is what a kubelet would report of the Pod now.
func (p *pod) status() corev1.PodStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	state := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	if p.process != nil {
		state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: p.started}}
	}
	ready := corev1.ConditionFalse
	if p.ready {
		ready = corev1.ConditionTrue
	}
	c := p.object.Spec.Containers[0]
	return corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: p.ip, PodIPs: []corev1.PodIP{{IP: p.ip}}, HostIP: "127.0.0.1",
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
			{Type: corev1.ContainersReady, Status: ready},
			{Type: corev1.PodReady, Status: ready},
		},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: c.Name, Image: c.Image, State: state, Ready: p.ready, RestartCount: p.restarts,
			ContainerID: fmt.Sprintf("process://%s-%d", p.object.UID, p.restarts),
		}},
	}
}

func (p *pod) report(ctx context.Context, status corev1.PodStatus) error {
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = p.runner.client.CoreV1().Pods(p.object.Namespace).Patch(ctx, p.object.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}
