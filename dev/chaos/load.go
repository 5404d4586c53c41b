package main

import (
	"context"
	"fmt"
	"time"

	"gpustack.ai/model-deployment-scaler/internal/sim"
)

// traffic of all models follows busy.
func (w *world) traffic() {
	load := quiet
	if w.busy {
		load = busy
	}
	for _, name := range names {
		w.Fleet.SetTraffic(namespace, name, load)
	}
}

// stir changes the load and waits until the first count has moved.
func (w *world) stir(ctx context.Context) error {
	before, err := w.replicas(ctx)
	if err != nil {
		return err
	}
	w.busy = !w.busy
	w.traffic()
	var shown time.Time
	return w.await(ctx, "counts move before the fault", func() bool {
		if shown.IsZero() && w.needsMore(before) {
			shown = time.Now()
		}
		now, err := w.replicas(ctx)
		if err != nil || now == before {
			return false
		}
		if now > before && !shown.IsZero() {
			w.reacted(time.Since(shown))
		}
		return true
	})
}

// reacted notes how long it took until a demand that shows was answered.
func (w *world) reacted(took time.Duration) {
	w.reactions = append(w.reactions, took)
	if took > reaction.goal {
		say("  before it: %s %.1f s later", reaction.what, took.Seconds())
	}
}

// needsMore says whether the engines of chat show a queue that needs more replicas than there are.
func (w *world) needsMore(replicas int32) bool {
	queue, ready := 0, 0
	for _, i := range w.Fleet.Instances(namespace, "chat") {
		queue += i.Running + i.Waiting
		if i.State == sim.Ready {
			ready++
		}
	}
	return queue > 8*int(replicas) && 10*queue > 11*8*ready
}

// settled waits until counts are what the load needs.
func (w *world) settled(ctx context.Context) error {
	return w.await(ctx, fmt.Sprintf("counts are right after the fault (busy: %t)", w.busy), func() bool {
		return w.right(ctx, "chat", quietReplicas, busyReplicas)
	})
}

// right says whether a model has what it needs, of the load that there is.
func (w *world) right(ctx context.Context, name string, quiet, busy int32) bool {
	now, err := w.replicasOf(ctx, name)
	return err == nil && (w.busy && now >= busy || !w.busy && now <= quiet)
}

func (w *world) replicas(ctx context.Context) (int32, error) { return w.replicasOf(ctx, "chat") }

func (w *world) replicasOf(ctx context.Context, name string) (int32, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	d, err := w.Target(ctx, namespace, name)
	if err != nil || len(d.Roles) == 0 {
		return 0, err
	}
	return d.Roles[0].Replicas, nil
}
