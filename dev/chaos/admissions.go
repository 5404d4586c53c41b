package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/sim"
)

// admissions remember when instances had quota.
type admissions struct {
	mu    sync.Mutex
	spans map[string][]span
}

type span struct{ from, to time.Time }

const (
	lookEvery = 200 * time.Millisecond
	looseness = 2 * time.Second // between a status, in whole seconds, and what was seen
)

func newAdmissions() *admissions { return &admissions{spans: make(map[string][]span)} }

// watch looks until ctx ends.
func (a *admissions) watch(ctx context.Context, instances func(name string) []sim.Instance) {
	for ctx.Err() == nil {
		now := time.Now()
		a.mu.Lock()
		for _, name := range names {
			for _, i := range instances(name) {
				if i.Admitted() {
					a.saw(key(name, i.Role.Name, int32(i.Ordinal)), now)
				}
			}
		}
		a.mu.Unlock()
		_ = pause(ctx, lookEvery)
	}
}

func key(name, role string, ordinal int32) string {
	return fmt.Sprintf("%s/%s/%d", name, role, ordinal)
}

func (a *admissions) saw(key string, now time.Time) {
	spans := a.spans[key]
	if n := len(spans); n > 0 && now.Sub(spans[n-1].to) < looseness {
		spans[n-1].to = now
		return
	}
	a.spans[key] = append(spans, span{now, now})
}

// all says whether each instance up to the counts had quota at some time within the two.
func (a *admissions) all(name string, counts workerv1.Vector, from, to time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for role, count := range counts {
		for ordinal := range count {
			if !within(a.spans[key(name, role, ordinal)], from.Add(-looseness), to.Add(looseness)) {
				return false
			}
		}
	}
	return true
}

func within(spans []span, from, to time.Time) bool {
	for _, s := range spans {
		if !s.to.Before(from) && !s.from.After(to) {
			return true
		}
	}
	return false
}
