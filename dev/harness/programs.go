package harness

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/dev/controlplane"
	"gpustack.ai/model-deployment-scaler/dev/runner"
)

const (
	// patience with everything that should happen by itself; a busy machine needs some.
	patience = 3 * time.Minute
	often    = 100 * time.Millisecond
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// startPrograms runs the Deployments and Services as the API server holds them.
func (c *Cluster) startPrograms() error {
	prefix, err := netip.ParsePrefix(c.plane.Block + ".32.0/19")
	if err != nil {
		return fmt.Errorf("finding addresses for the programs: %w", err)
	}
	binaries := make(map[string]string)
	for _, name := range slices.Concat(Components, c.o.More) {
		if binaries[Namespace+"/"+name], err = controlplane.Binary(name); err != nil {
			return err
		}
	}
	o := runner.Options{Config: c.Config, Binaries: binaries, PodCIDR: prefix, Dir: c.dir, Server: c.o.Server}
	if c.Runner, err = runner.New(o); err != nil {
		return err
	}
	deployments, services, err := c.workloads()
	if err != nil {
		return err
	}
	if c.o.Programs != nil {
		c.o.Programs(deployments)
	}
	c.group.Go(func() error { return c.Runner.Run(c.ctx, deployments, services) })
	return nil
}

func (c *Cluster) workloads() (deployments []*appsv1.Deployment, services []*corev1.Service, err error) {
	d, err := c.Kube.AppsV1().Deployments(Namespace).List(c.ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("listing Deployments: %w", err)
	}
	for i := range d.Items {
		deployments = append(deployments, &d.Items[i])
	}
	s, err := c.Kube.CoreV1().Services(Namespace).List(c.ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("listing Services: %w", err)
	}
	for i := range s.Items {
		services = append(services, &s.Items[i])
	}
	return deployments, services, nil
}

// awaitReady returns when all programs are ready, one decider leads, and the API server asks the webhook.
func (c *Cluster) awaitReady() error {
	return errors.Join(
		c.await("all programs are ready", func(context.Context) (bool, error) { return c.programsReady(), nil }),
		c.await("a decider leads", func(ctx context.Context) (bool, error) {
			_, err := c.Leader(ctx)
			return err == nil, err
		}),
		c.await("the webhook fills in defaults", c.webhookAnswers),
	)
}

func (c *Cluster) programsReady() bool {
	pods := c.Runner.Pods(nil)
	for _, p := range pods {
		if !p.Ready {
			return false
		}
	}
	return len(pods) >= len(Components)
}

// webhookAnswers tries a scaler that only the mutating webhook makes valid.
func (c *Cluster) webhookAnswers(ctx context.Context) (bool, error) {
	probe, err := parse(`{apiVersion: worker.gpustack.ai/v1, kind: ModelDeploymentScaler, metadata: {name: probe},
spec: {targetRef: {name: probe}, roles: [{name: server, maxReplicas: 2}],
algorithm: {proportional: {metric: QueueDepth, roleTargets: [{name: server, target: "8"}]}}}}`)
	if err != nil {
		return false, err
	}
	created, err := c.Scalers("default").Create(ctx, probe[0], metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return false, err
	}
	kind, _, err := unstructured.NestedString(created.Object, "spec", "algorithm", "type")
	return kind == string(workerv1.AlgorithmProportional), err
}

// await polls until a condition holds; the error says what the last try met and shows what the programs printed.
func (c *Cluster) await(what string, condition func(context.Context) (bool, error)) error {
	var last error
	err := wait.PollUntilContextTimeout(c.ctx, often, patience, true, func(ctx context.Context) (done bool, err error) {
		done, last = condition(ctx)
		return done, nil
	})
	if err == nil {
		return nil
	}
	return fmt.Errorf("waiting until %s: %w", what, errors.Join(err, last, c.complaint()))
}

// complaint carries the programs' last lines; nil while there is nothing to show.
func (c *Cluster) complaint() error {
	if c.Runner == nil {
		return nil
	}
	return errors.New(c.Logs(10))
}

// Logs are the last lines of each program.
func (c *Cluster) Logs(lines int) string {
	var b strings.Builder
	for _, p := range c.Runner.Pods(nil) {
		text, err := os.ReadFile(p.LogFile)
		if err != nil {
			fmt.Fprintf(&b, "--- %s: %v\n", p.Name, err)
			continue
		}
		all := strings.Split(strings.TrimSpace(string(text)), "\n")
		fmt.Fprintf(&b, "--- %s (ready %t, restarts %d)\n%s\n", p.Name, p.Ready, p.Restarts, strings.Join(all[max(0, len(all)-lines):], "\n"))
	}
	return b.String()
}
