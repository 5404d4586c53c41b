package main

import (
	"context"
	"sync"
	"time"

	"gpustack.ai/model-deployment-scaler/dev/fleet"
)

const (
	// beforeBlind is how long plans may still rest on what was seen before: an engine that hangs is missed in the next pass, which
	// ends an interval, an offset and a timeout later; what a lost sampler saw last is good for two intervals and 2 s (D12). The
	// rest is for a busy machine.
	beforeBlind = 20 * time.Second
	// blind is how long it lasts: shrinking from 3 to 1 would take half of it.
	blind = 30 * time.Second
)

// blindness remembers when roles could not be observed in full.
type blindness struct {
	mu    sync.Mutex
	spans map[subject][]span
}

func newBlindness() *blindness { return &blindness{spans: make(map[subject][]span)} }

// at says whether a role of a target was blind at a time.
func (b *blindness) at(name, role string, at time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return within(b.spans[subject{name, role}], at, at)
}

func (b *blindness) add(s span, roles ...subject) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range roles {
		b.spans[r] = append(b.spans[r], s)
	}
}

// blinded lets a reason to shrink come while roles cannot be observed in full. What blinds them has begun.
func (w *world) blinded(ctx context.Context, roles ...subject) error {
	if err := pause(ctx, beforeBlind); err != nil {
		return err
	}
	from := time.Now()
	w.busy = false
	w.traffic()
	err := pause(ctx, blind)
	w.blindness.add(span{from, time.Now()}, roles...)
	return err
}

// loaded brings the models to their size under load.
func (w *world) loaded(ctx context.Context) error {
	w.busy = true
	w.traffic()
	return w.settled(ctx)
}

// hangEngine lets the first engine of chat and of pair's Decode role hang, which is never removed, while the load goes.
func hangEngine(ctx context.Context, w *world) (err error) {
	if err := w.loaded(ctx); err != nil {
		return err
	}
	hung := []subject{{"chat", "server"}, {"pair", "decode"}}
	for _, r := range hung {
		pod, err := w.firstEngine(ctx, r)
		if err != nil {
			return err
		}
		if err := w.Fleet.Break(namespace, pod, fleet.Hangs); err != nil {
			return err
		}
		defer func() { _ = w.Fleet.Break(namespace, pod, fleet.Healthy) }() // it serves: nobody removed it
	}
	return w.blinded(ctx, hung...)
}

// losesSight cuts all samplers off while the load goes.
func losesSight(ctx context.Context, w *world) error {
	if err := w.loaded(ctx); err != nil {
		return err
	}
	for _, p := range w.Pods("sampler") {
		l := w.link(p.Name)
		l.cut(true, true)
		defer l.mend()
	}
	return w.blinded(ctx, subjects...)
}
