package main

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// frozen is how long a sampler hangs, and the webhook is away.
const frozen = time.Minute

// cutOff is how long a sampler cannot be reached, and the API server misbehaves.
const cutOff = 30 * time.Second

var faults = []fault{
	{name: "sampler-kill", count: 3, deciders: quick, what: "a sampler dies (SIGKILL)", inject: killSampler},
	{name: "sampler-freeze", count: 2, deciders: quick, what: "a sampler hangs for a minute (SIGSTOP)", inject: freezeSampler},
	{name: "sampler-partition", count: 2, deciders: quick, what: "nothing arrives at or from a sampler for 30 s", inject: partition(true, true)},
	{name: "sampler-deaf", count: 1, deciders: quick, what: "nothing arrives at a sampler for 30 s", inject: partition(true, false)},
	{name: "sampler-mute", count: 1, deciders: quick, what: "nothing arrives from a sampler for 30 s", inject: partition(false, true)},
	{name: "sampler-rollout", count: 2, deciders: quick, what: "a rolling update of the samplers", inject: rollSamplers},
	{name: "leader-kill", count: 5, deciders: quick, what: "the leader dies at any moment (SIGKILL)", inject: killLeader},
	{name: "leader-kill-between", count: 3, deciders: quick, what: "the leader dies after its write to a target, before that to the status", inject: killBetween},
	{name: "leader-freeze", count: 3, deciders: quick, what: "the leader hangs past its lease and wakes up (SIGSTOP, SIGCONT)", inject: freezeLeader},
	{name: "leader-late-write", count: 3, deciders: quick, what: "a write of a leader that hangs arrives when another one leads", inject: lateWrite},
	{name: "leader-cut-off", count: 2, deciders: quick, what: "the leader cannot reach the API server until another one leads", inject: cutOffLeader},
	{name: "api-restart", count: 2, deciders: quick, what: "etcd and API server are killed and started again", inject: restartPlane},
	{name: "api-errors", count: 2, deciders: quick, what: "the API server answers 10 % of the deciders' requests with 500 or 409, for 30 s", inject: failAPI},
	{name: "api-stalled-watches", count: 2, deciders: quick, what: "watches of the deciders tell nothing for 30 s", inject: stallWatches},
	{name: "webhook-down", count: 2, deciders: quick, what: "the webhook hangs for a minute", inject: freezeWebhook},
	{name: "engines", count: 2, deciders: quick, what: "an engine hangs, talks garbage, fails, never ends, and restarts under its address", inject: breakEngines},
	{name: "pods", count: 2, deciders: quick, what: "all Pods of a model are deleted at once", inject: deletePods},
	{name: "targets", count: 2, deciders: quick, what: "a target is deleted and created again under its name", inject: recreateTarget},
	{name: "scalers", count: 2, deciders: quick, what: "a scaler is deleted and created again under its name", inject: recreateScaler},
	{name: "leader-kill-production", count: 2, deciders: shipped, what: "the leader dies at any moment, with the lease that is shipped", inject: killLeader},
	{name: "clock-steps", count: 4, deciders: stepped, what: "the leader dies, and the clock of the next may be 20 minutes ahead of its or behind", inject: killLeader},
}

func killSampler(_ context.Context, w *world) error {
	return w.Runner.Signal(anyOf(w.Pods("sampler")).Name, syscall.SIGKILL)
}

func freezeSampler(ctx context.Context, w *world) error {
	return w.freeze(anyOf(w.Pods("sampler")).Name, func() error { return pause(ctx, frozen) })
}

// freeze a Pod's program until a function returns.
func (w *world) freeze(pod string, until func() error) error {
	if err := w.Runner.Signal(pod, syscall.SIGSTOP); err != nil {
		return err
	}
	err := until()
	if woken := w.Runner.Signal(pod, syscall.SIGCONT); err == nil {
		err = woken
	}
	return err
}

func partition(toward, back bool) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		l := w.link(anyOf(w.Pods("sampler")).Name)
		l.cut(toward, back)
		defer l.mend()
		return pause(ctx, cutOff)
	}
}

func rollSamplers(ctx context.Context, w *world) error {
	for _, p := range w.Pods("sampler") {
		if err := w.Runner.Replace(ctx, p.Name); err != nil {
			return err
		}
	}
	return nil
}

func killLeader(ctx context.Context, w *world) error {
	pod, holder, err := w.leader(ctx, "")
	if err != nil {
		return err
	}
	if err := w.Runner.Signal(pod, syscall.SIGKILL); err != nil {
		return err
	}
	_, _, err = w.leader(ctx, holder)
	return err
}

func freezeLeader(ctx context.Context, w *world) error {
	pod, holder, err := w.leader(ctx, "")
	if err != nil {
		return err
	}
	return w.freeze(pod, func() error {
		_, _, err := w.leader(ctx, holder)
		return err
	})
}

func restartPlane(ctx context.Context, w *world) error {
	if err := w.RestartPlane(ctx); err != nil {
		return err
	}
	return pause(ctx, time.Second)
}

func freezeWebhook(ctx context.Context, w *world) error {
	pods := w.Pods("webhook")
	for _, p := range pods {
		if err := w.Runner.Signal(p.Name, syscall.SIGSTOP); err != nil {
			return err
		}
	}
	err := pause(ctx, frozen)
	for _, p := range pods {
		if woken := w.Runner.Signal(p.Name, syscall.SIGCONT); woken != nil {
			return fmt.Errorf("waking %s: %w", p.Name, woken)
		}
	}
	return err
}
