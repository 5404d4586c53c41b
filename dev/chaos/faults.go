package main

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"gpustack.ai/model-deployment-scaler/dev/runner"
)

// frozen is how long a sampler hangs, and the webhook is away.
const frozen = time.Minute

// cutOff is how long a sampler cannot be reached, and the API server misbehaves.
const cutOff = 30 * time.Second

var faults = []fault{
	{name: "sampler-kill", count: 3, deciders: quick, what: "a sampler dies (SIGKILL)", inject: killSampler, measure: samplerLoss},
	{name: "sampler-freeze", count: 2, deciders: quick, what: "a sampler hangs for a minute (SIGSTOP)", inject: freezeSampler, measure: samplerLoss},
	{name: "sampler-partition", count: 2, deciders: quick, what: "nothing arrives at or from a sampler for 30 s", inject: partition(true, true), measure: samplerLoss},
	{name: "sampler-deaf", count: 1, deciders: quick, what: "nothing arrives at a sampler for 30 s", inject: partition(true, false), measure: samplerLoss},
	{name: "sampler-mute", count: 1, deciders: quick, what: "nothing arrives from a sampler for 30 s", inject: partition(false, true), measure: samplerLoss},
	{name: "sampler-rollout", count: 2, deciders: quick, what: "a rolling update of the samplers", inject: rollSamplers},
	{name: "leader-kill", count: 5, deciders: quick, what: "the leader dies at any moment (SIGKILL)", inject: killLeader, measure: failOver(quickLease)},
	{name: "leader-kill-between", count: 3, deciders: quick, what: "the leader dies after its write to a target, before that to the status", inject: killBetween, measure: failOver(quickLease)},
	{name: "leader-end", count: 3, deciders: quick, what: "the leader is told to end (SIGTERM)", inject: endLeader, measure: handover},
	{name: "decider-rollout", count: 2, deciders: quick, what: "a rolling update of the deciders, the leader last", inject: rollDeciders, measure: handover},
	{name: "leader-freeze", count: 3, deciders: quick, what: "the leader hangs past its lease and wakes up (SIGSTOP, SIGCONT)", inject: freezeLeader, measure: failOver(quickLease)},
	{name: "leader-late-write", count: 3, deciders: quick, what: "a write of a leader that hangs arrives when another one leads", inject: lateWrite, measure: failOver(quickLease)},
	{name: "leader-cut-off", count: 2, deciders: quick, what: "the leader cannot reach the API server until another one leads", inject: cutOffLeader, measure: failOver(quickLease)},
	{name: "api-restart", count: 2, deciders: quick, what: "etcd and API server are killed and started again", inject: restartPlane},
	{name: "api-errors", count: 2, deciders: quick, what: "the API server answers 10 % of the deciders' requests with 500 or 409, for 30 s", inject: failAPI},
	{name: "api-stalled-watches", count: 2, deciders: quick, what: "watches of the deciders tell nothing for 30 s", inject: stallWatches},
	{name: "webhook-down", count: 2, deciders: quick, what: "the webhook hangs for a minute", inject: freezeWebhook},
	{name: "engines", count: 2, deciders: quick, what: "an engine hangs, talks garbage, fails, never ends, and restarts under its address", inject: breakEngines},
	{name: "engines-lie", count: 2, deciders: quick, what: "an engine says that it is idle, swamped, and that its counters jump", inject: lyingEngines},
	{name: "engine-hangs", count: 2, deciders: quick, what: "an engine hangs while the load of its model goes", inject: hangEngine},
	{name: "samplers-away", count: 2, deciders: quick, what: "no sampler can be reached while the load of all models goes", inject: losesSight},
	{name: "pods", count: 2, deciders: quick, what: "all Pods of a model are deleted at once", inject: deletePods},
	{name: "targets", count: 2, deciders: quick, what: "a target is deleted and created again under its name", inject: recreateTarget},
	{name: "scalers", count: 2, deciders: quick, what: "a scaler is deleted and created again under its name", inject: recreateScaler},
	{name: "leader-kill-production", count: 2, deciders: shipped, what: "the leader dies at any moment, with the lease that is shipped", inject: killLeader, measure: failOver(shippedLease)},
	{name: "clock-steps", count: 4, deciders: stepped, what: "the leader dies, and the clock of the next may be 20 minutes ahead of its or behind", inject: killLeader, measure: failOver(quickLease)},
}

// busySampler is one that observes something, where there is one.
func (w *world) busySampler() string {
	pods := w.Pods("sampler")
	idle := func(p runner.Pod) bool { return len(w.witness.of(p.Name)) == 0 }
	if some := slices.DeleteFunc(slices.Clone(pods), idle); len(some) > 0 {
		pods = some
	}
	return anyOf(pods).Name
}

func killSampler(_ context.Context, w *world) error {
	pod := w.busySampler()
	w.strikeSampler(pod)
	return w.Runner.Signal(pod, syscall.SIGKILL)
}

func freezeSampler(ctx context.Context, w *world) error {
	pod := w.busySampler()
	w.strikeSampler(pod)
	return w.freeze(pod, func() error { return pause(ctx, frozen) })
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
		pod := w.busySampler()
		l := w.link(pod)
		w.strikeSampler(pod)
		l.cut(toward, back)
		defer l.mend()
		return pause(ctx, cutOff)
	}
}

// rollSamplers must leave every role with current readings, all the time.
func rollSamplers(ctx context.Context, w *world) error {
	began := time.Now()
	for _, p := range w.Pods("sampler") {
		if err := w.Runner.Replace(ctx, p.Name); err != nil {
			return err
		}
	}
	if err := pause(ctx, 2*interval); err != nil {
		return err
	}
	return w.witness.current(began)
}

func killLeader(ctx context.Context, w *world) error {
	pod, holder, err := w.leader(ctx, "")
	if err != nil {
		return err
	}
	if err := w.kill(pod, holder); err != nil {
		return err
	}
	_, _, err = w.leader(ctx, holder)
	return err
}

// kill the leader, by its Pod and identity.
func (w *world) kill(pod, holder string) error {
	w.strike(holder)
	return w.Runner.Signal(pod, syscall.SIGKILL)
}

func endLeader(ctx context.Context, w *world) error {
	pod, holder, err := w.leader(ctx, "")
	if err != nil {
		return err
	}
	w.strike(holder)
	if err := w.Runner.Signal(pod, syscall.SIGTERM); err != nil {
		return err
	}
	_, _, err = w.leader(ctx, holder)
	return err
}

func rollDeciders(ctx context.Context, w *world) error {
	leader, holder, err := w.leader(ctx, "")
	if err != nil {
		return err
	}
	for _, p := range w.Pods("decider") {
		if p.Name == leader {
			continue
		}
		if err := w.Runner.Replace(ctx, p.Name); err != nil {
			return err
		}
	}
	if err := w.Runner.Surge(ctx, leader); err != nil {
		return err
	}
	w.strike(holder)
	return w.Runner.Retire(ctx, leader)
}

func freezeLeader(ctx context.Context, w *world) error {
	pod, holder, err := w.leader(ctx, "")
	if err != nil {
		return err
	}
	w.strike(holder)
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
