package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpustack.ai/model-deployment-scaler/dev/harness"
	"gpustack.ai/model-deployment-scaler/internal/sim"
)

const (
	namespace = "demo"
	name      = "chat" // of the deployment and of its scaler

	// afterScript is how long the deployment may take to come back to one replica when the traffic has.
	afterScript = 90 * time.Second
	refresh     = time.Second
)

const objects = `
apiVersion: worker.gpustack.ai/v1
kind: ModelDeployment
metadata: {name: chat}
spec:
  model: {name: Qwen/Qwen3-8B}
  engine: {name: vLLM}
  roles: [{name: server, kind: Server, replicas: 1, instanceType: a100}]
---
apiVersion: worker.gpustack.ai/v1
kind: ModelDeploymentScaler
metadata: {name: chat}
spec:
  targetRef: {name: chat}
  mode: Active
  sampling: {intervalSeconds: 5}
  roles: [{name: server, minReplicas: 1, maxReplicas: 6}]
  algorithm:
    proportional: {metric: QueueDepth, roleTargets: [{name: server, target: "8"}]}
  behavior:
    scaleDown: {stabilizationWindowSeconds: 15}
`

// script is the traffic: a request takes about 2 s, so the queue depth is twice the rate and 18 requests per second want 5
// replicas of 8 requests each.
var script = sim.Profile{
	Points: []sim.Point{{At: 0, Rate: 2}, {At: 20, Rate: 2}, {At: 70, Rate: 18}, {At: 100, Rate: 18}, {At: 120, Rate: 2}},
	Prompt: 200, Output: 120,
}

// scriptLength is when the rate has reached its end.
const scriptLength = 120 * time.Second

var errInterrupted = errors.New("interrupted")

// run is the whole demo. Whatever happens, everything is stopped when it returns.
func run(ctx context.Context, s *screen, keep bool) (err error) {
	s.title("Starting the system: a real API server, the shipped manifests, 2 samplers, 2 deciders, 2 webhooks")
	system, err := harness.Start(ctx, harness.Options{Progress: s.step})
	if err != nil {
		return interrupted(ctx, err)
	}
	defer func() {
		s.line("")
		s.step("stopping")
		if stopped := system.Stop(); stopped != nil {
			err = stopped // which is why it ended, or more to say than that it did
		}
	}()
	if err := prepare(ctx, system); err != nil {
		return interrupted(ctx, err)
	}
	s.commands(system.Kubeconfig)
	seen, err := play(ctx, s, system)
	if err != nil {
		return interrupted(ctx, err)
	}
	if err := summary(ctx, s, system, seen); err != nil {
		return interrupted(ctx, err)
	}
	if keep {
		s.title("Everything stays up until Ctrl-C")
		s.commands(system.Kubeconfig)
		select {
		case <-ctx.Done(): // the wished-for end
		case <-system.Done():
			return errors.New("the system ended by itself")
		}
	}
	return seen.verdict()
}

// interrupted: what fails because somebody ended the demo is no failure, unless something stays behind.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(err, harness.ErrUnclean) {
		return errInterrupted
	}
	return err
}

func prepare(ctx context.Context, system *harness.Cluster) error {
	_, err := system.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating namespace %s: %w", namespace, err)
	}
	return system.Apply(ctx, namespace, objects)
}

// history is what the deployment did.
type history struct{ most, last int32 }

// verdict says whether the main job was seen.
func (h history) verdict() error {
	switch {
	case h.most <= 1:
		return errors.New("the deployment never grew above 1 replica, though its load did")
	case h.last != 1:
		return fmt.Errorf("the deployment grew to %d replicas and was still at %d, not 1, %s after its load had gone", h.most, h.last, afterScript)
	}
	return nil
}

// play sends the traffic and shows what happens, until the deployment is back at one replica or has had its time.
func play(ctx context.Context, s *screen, system *harness.Cluster) (history, error) {
	system.Fleet.SetTraffic(namespace, name, script)
	s.title("Traffic: 2 requests per second, a ramp to 18, and back. One replica should carry 8 requests at a time")
	s.header()
	var h history
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	for began := time.Now(); ; {
		at := time.Since(began)
		now, err := look(ctx, system, at)
		if err == nil {
			s.show(now, at)
			h.most, h.last = max(h.most, now.current), now.current
		}
		if at > scriptLength+afterScript || at > scriptLength && now.settled() {
			s.done()
			return h, err
		}
		select {
		case <-ctx.Done():
			s.done()
			return h, ctx.Err()
		case <-system.Done():
			s.done()
			return h, errors.New("a part of the system failed")
		case <-tick.C:
		}
	}
}
