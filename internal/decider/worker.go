package decider

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// heartbeatEvery is how often a token goes through the queue of passes, to prove that workers take from it.
const heartbeatEvery = 5 * time.Second

// heartbeatName is the token's name: no scaler has an empty one.
var heartbeatName = types.NamespacedName{}

// plan runs passes until ctx ends, one at a time for each scaler.
func (l *leader) plan(ctx context.Context) {
	context.AfterFunc(ctx, l.schedule.queue.ShutDown)
	l.schedule.queue.Add(heartbeatName)
	var workers sync.WaitGroup
	for range l.workers {
		workers.Go(func() {
			for l.next(ctx) {
			}
		})
	}
	workers.Wait()
}

// next takes one scaler from the queue; false when the queue is shut down.
func (l *leader) next(ctx context.Context) bool {
	name, down := l.schedule.queue.Get()
	if down {
		return false
	}
	defer l.schedule.queue.Done(name)
	switch {
	case ctx.Err() != nil:
	case name == heartbeatName:
		l.heartbeat.Beat()
		l.schedule.queue.AddAfter(heartbeatName, heartbeatEvery)
	default:
		l.turn(ctx, name)
	}
	return true
}

// turn runs a scaler's pass if it is time, and plans the next. One whose past is not heard yet is put into the queue again
// when it is.
func (l *leader) turn(ctx context.Context, name types.NamespacedName) {
	if !l.heard(name) {
		return
	}
	began := time.Now()
	run, wait := l.schedule.begin(name, began)
	if !run {
		l.schedule.queue.AddAfter(name, wait)
		return
	}
	every, err := l.passSafely(ctx, name)
	l.metrics.passed(time.Since(began), err)
	switch {
	case err != nil && ctx.Err() != nil: // the end of this leadership, not a failure
	case err != nil:
		l.failed(name, err)
	case every == 0: // gone
	default:
		l.schedule.succeed(name, every)
	}
}

// passSafely makes a failure of a panic: a defect that one scaler runs into must not stop the planning of all, here and then
// at every standby. Memory is as the last pass left it; what was written to the target is found there (D33).
func (l *leader) passSafely(ctx context.Context, name types.NamespacedName) (every time.Duration, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			l.log.Error("pass panicked, which is a defect", zap.Stringer("scaler", name), zap.Any("cause", cause), zap.Stack("stack"))
			err = fmt.Errorf("planning scaler %s: panic: %v", name, cause)
		}
	}()
	return l.pass(ctx, name)
}

// failed plans another try. A lasting failure is told when it begins and then ever more rarely.
func (l *leader) failed(name types.NamespacedName, err error) {
	bound := maxBackoff
	if apierrors.IsConflict(err) {
		bound = briefBackoff
	}
	failures := l.schedule.fail(name, time.Now(), bound)
	log := l.log.Debug
	if failures&(failures-1) == 0 {
		log = l.log.Warn
	}
	log("pass failed and is tried again", zap.Stringer("scaler", name), zap.Int("failures", failures), zap.Error(err))
}
