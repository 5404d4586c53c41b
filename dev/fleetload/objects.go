package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/kube"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

const (
	// perNamespace deployments share a namespace.
	perNamespace = 100
	// replicas of a role, each of one Pod.
	replicas = 2
	// makers write at the same time.
	makers = 32
	// interval between two observations of a role.
	interval = 15 * time.Second
)

// systemNamespace has the Lease.
const systemNamespace = "system"

var roleNames = []string{"prefill", "decode"}

func nameOf(i int) deployment {
	return deployment{fmt.Sprintf("fleet-%03d", i/perNamespace), fmt.Sprintf("llm-%05d", i)}
}

// makeFleet makes n deployments with their Pods and scalers.
func makeFleet(ctx context.Context, c *kube.Client, n int) error {
	names := []string{systemNamespace}
	for i := 0; i < n; i += perNamespace {
		names = append(names, nameOf(i).namespace)
	}
	for _, name := range names {
		if _, err := c.Core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("making namespace %s: %w", name, err)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(makers)
	var made atomic.Int64
	for i := range n {
		g.Go(func() error {
			if err := makeDeployment(ctx, c, nameOf(i)); err != nil {
				return fmt.Errorf("making %v: %w", nameOf(i), err)
			}
			if done := made.Add(1); done%1000 == 0 {
				fmt.Printf("made %d of %d deployments\n", done, n)
			}
			return nil
		})
	}
	return g.Wait()
}

func makeDeployment(ctx context.Context, c *kube.Client, d deployment) error {
	roles := []any{}
	for _, name := range roleNames {
		roles = append(roles, map[string]any{"name": name, "kind": kindOf(name), "replicas": int64(replicas), "instanceType": "gpu"})
	}
	made, err := c.Targets(d.namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": target.GroupName + "/" + c.Version, "kind": target.Kind, "metadata": map[string]any{"name": d.name, "namespace": d.namespace},
		"spec": map[string]any{"model": map[string]any{"name": "m"}, "engine": map[string]any{"name": "vLLM"}, "roles": roles},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for _, name := range roleNames {
		for ordinal := range replicas {
			if err := makePod(ctx, c, d, made.GetUID(), name, ordinal); err != nil {
				return err
			}
		}
	}
	_, err = c.Scalers(d.namespace).Create(ctx, scalerOf(c, d), metav1.CreateOptions{})
	return err
}

func kindOf(role string) string {
	return map[string]string{"prefill": "Prefill", "decode": "Decode"}[role]
}

// makePod makes a Pod that is ready. Nobody connects to its address.
func makePod(ctx context.Context, c *kube.Client, d deployment, owner types.UID, role string, ordinal int) error {
	yes := true
	pods := c.Core.CoreV1().Pods(d.namespace)
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%s-%d", d.name, role, ordinal), Namespace: d.namespace,
			Labels: map[string]string{target.NameLabel: target.NameValue, target.InstanceLabel: d.name, target.ComponentLabel: role,
				target.OrdinalLabel: fmt.Sprint(ordinal)},
			Annotations: map[string]string{target.ScrapeAnnotation: "true", target.PortAnnotation: "8000"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: target.GroupName + "/" + c.Version, Kind: target.Kind, Name: d.name,
				UID: owner, Controller: &yes}},
		},
		Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: target.EngineContainer, Image: "engine"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	const ip = "127.99.0.1"
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// scalerOf makes an active scaler that leaves two replicas to the usual demand and may grow to sixteen.
func scalerOf(c *kube.Client, d deployment) *workerv1.ModelDeploymentScaler {
	each := resource.MustParse(fmt.Sprint(perReplica))
	s := &workerv1.ModelDeploymentScaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: workerv1.GroupName + "/" + c.Version, Kind: workerv1.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: d.name, Namespace: d.namespace},
		Spec: workerv1.ModelDeploymentScalerSpec{
			TargetRef: workerv1.TargetReference{Name: d.name}, Mode: workerv1.ModeActive,
			Sampling: workerv1.Sampling{IntervalSeconds: int32(interval / time.Second)},
			Algorithm: workerv1.Algorithm{Type: workerv1.AlgorithmTokenThroughput, TokenThroughput: &workerv1.TokenThroughput{
				PrefillTargetTokensPerSecond: &each, DecodeTargetTokensPerSecond: &each,
			}},
		},
	}
	for _, name := range roleNames {
		s.Spec.Roles = append(s.Spec.Roles, workerv1.RoleBounds{Name: name, MinReplicas: 1, MaxReplicas: 16})
	}
	return s
}
