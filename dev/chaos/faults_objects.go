package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/dev/fleet"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// broken is how long an engine has each fault.
const broken = 8 * time.Second

// lying is how long an engine lies in each way: more than two intervals.
const lying = 12 * time.Second

// breakEngines gives one engine every fault in turn; it also restarts, which keeps its address.
func breakEngines(ctx context.Context, w *world) error {
	for _, kind := range []fleet.Fault{fleet.Hangs, fleet.Garbage, fleet.Failing, fleet.Endless} {
		pod, err := w.engine(ctx)
		if err != nil {
			return err
		}
		if w.Fleet.Break(namespace, pod, kind) != nil {
			continue // it has just been scaled down
		}
		err = pause(ctx, broken)
		_ = w.Fleet.Break(namespace, pod, fleet.Healthy) // scaled down meanwhile: gone with its fault
		if err != nil {
			return err
		}
	}
	pod, err := w.engine(ctx)
	if err != nil {
		return err
	}
	_ = w.Fleet.Restart(namespace, pod) // as above
	return pause(ctx, broken)
}

// lyingEngines lets the first engine of each kind of model say what is well formed and false. Counts follow what is said, within
// bounds, steps and windows, and become right again: those of tokens, which rest on counters, too.
func lyingEngines(ctx context.Context, w *world) error {
	if err := w.lie(ctx); err != nil {
		return err
	}
	return w.await(ctx, fmt.Sprintf("counts of tokens are right after the lies (busy: %t)", w.busy), func() bool {
		return w.right(ctx, "tokens", quietTokens, busyTokens)
	})
}

// lie in every way, one after the other.
func (w *world) lie(ctx context.Context) error {
	for _, kind := range []fleet.Fault{fleet.LiesIdle, fleet.LiesSwamped, fleet.LiesJumping} {
		for _, r := range []subject{{"chat", "server"}, {"pair", "decode"}, {"tokens", "server"}} {
			pod, err := w.firstEngine(ctx, r)
			if err != nil {
				return err
			}
			if err := w.Fleet.Break(namespace, pod, kind); err != nil {
				return err
			}
			defer func() { _ = w.Fleet.Break(namespace, pod, fleet.Healthy) }() // it serves: nobody removed it
		}
		if err := pause(ctx, lying); err != nil {
			return err
		}
	}
	return nil
}

// firstEngine is the Pod of the first instance of a role, which is removed last.
func (w *world) firstEngine(ctx context.Context, r subject) (string, error) {
	selector := labels.Set{target.InstanceLabel: r.scaler, target.ComponentLabel: r.role, target.OrdinalLabel: "0"}
	list, err := w.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil || len(list.Items) != 1 {
		return "", fmt.Errorf("looking for the first engine of %s, %s (found %d): %w", r.scaler, r.role, len(list.Items), err)
	}
	return list.Items[0].Name, nil
}

// engine is a Pod of chat.
func (w *world) engine(ctx context.Context) (string, error) {
	list, err := w.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: target.PodSelector("chat").String()})
	if err != nil || len(list.Items) == 0 {
		return "", fmt.Errorf("looking for an engine: %w", err)
	}
	return anyOf(list.Items).Name, nil
}

// deletePods takes all Pods of chat without grace, as a lost node does.
func deletePods(ctx context.Context, w *world) error {
	return w.Kube.CoreV1().Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)},
		metav1.ListOptions{LabelSelector: target.PodSelector("chat").String()})
}

func recreateTarget(ctx context.Context, w *world) error {
	w.busy = true // the new one is small
	w.traffic()
	if err := w.Targets(namespace).Delete(ctx, "chat", metav1.DeleteOptions{}); err != nil {
		return err
	}
	err := w.gone(ctx, "the target", func() error {
		_, err := w.Targets(namespace).Get(ctx, "chat", metav1.GetOptions{})
		return err
	})
	if err != nil {
		return err
	}
	if err := w.Apply(ctx, namespace, chat); err != nil {
		return err
	}
	return w.adopt(ctx)
}

// adopt edits the scaler: only then does it plan a target that was created again under the name of another.
func (w *world) adopt(ctx context.Context) error {
	err := w.await(ctx, "the scaler says that its target was replaced", func() bool {
		s, err := w.Scaler(ctx, namespace, "chat")
		return err == nil && slices.ContainsFunc(s.Status.Conditions, func(c metav1.Condition) bool { return c.Reason == workerv1.ReasonTargetReplaced })
	})
	if err != nil {
		return err
	}
	edit := fmt.Sprintf(`{"spec":{"sampling":{"pendingTimeoutSeconds":%d}}}`, 300+rand.IntN(300))
	_, err = w.Scalers(namespace).Patch(ctx, "chat", types.MergePatchType, []byte(edit), metav1.PatchOptions{})
	return err
}

func recreateScaler(ctx context.Context, w *world) error {
	if err := w.Scalers(namespace).Delete(ctx, "chat", metav1.DeleteOptions{}); err != nil {
		return err
	}
	err := w.gone(ctx, "the scaler", func() error {
		_, err := w.Scalers(namespace).Get(ctx, "chat", metav1.GetOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return w.Apply(ctx, namespace, chatScaler)
}
