package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/dev/runner"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// Scalers of a namespace.
func (c *Cluster) Scalers(namespace string) dynamic.ResourceInterface {
	return c.Dynamic.Resource(schema.GroupVersionResource{Group: workerv1.GroupName, Version: "v1", Resource: workerv1.Resource}).Namespace(namespace)
}

// Targets of a namespace.
func (c *Cluster) Targets(namespace string) dynamic.ResourceInterface {
	return c.Dynamic.Resource(schema.GroupVersionResource{Group: target.GroupName, Version: "v1", Resource: target.Resource}).Namespace(namespace)
}

// Scaler reads a scaler, live.
func (c *Cluster) Scaler(ctx context.Context, namespace, name string) (*workerv1.ModelDeploymentScaler, error) {
	u, err := c.Scalers(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading scaler %s/%s: %w", namespace, name, err)
	}
	s := &workerv1.ModelDeploymentScaler{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, s); err != nil {
		return nil, fmt.Errorf("reading scaler %s/%s: %w", namespace, name, err)
	}
	return s, nil
}

// Target reads a deployment, live.
func (c *Cluster) Target(ctx context.Context, namespace, name string) (target.Deployment, error) {
	u, err := c.Targets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return target.Deployment{}, fmt.Errorf("reading deployment %s/%s: %w", namespace, name, err)
	}
	return target.Parse(u)
}

// Pods of a component.
func (c *Cluster) Pods(component string) []runner.Pod {
	return c.Runner.Pods(map[string]string{"app.kubernetes.io/component": component})
}

// Leader is the Pod of the decider that leads.
func (c *Cluster) Leader(ctx context.Context) (string, error) {
	holder, err := c.Holder(ctx)
	pod, _, _ := strings.Cut(holder, "_")
	return pod, err
}

// Holder is the identity that the leader holds the Lease by: another one for every life of its program.
func (c *Cluster) Holder(ctx context.Context) (string, error) {
	lease, err := c.Kube.CoordinationV1().Leases(Namespace).Get(ctx, "decider", metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the Lease of the deciders: %w", err)
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return "", errors.New("no decider holds the Lease")
	}
	return *lease.Spec.HolderIdentity, nil
}

// SignalPlane signals the API server: SIGSTOP freezes it, SIGCONT lets it go on.
func (c *Cluster) SignalPlane(sig os.Signal) error { return c.plane.Signal(sig) }

// RestartPlane kills the API server and starts it again on its data; Options.Durable must be set.
func (c *Cluster) RestartPlane(ctx context.Context) error { return c.plane.Restart(ctx) }
