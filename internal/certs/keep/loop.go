package keep

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

const (
	// checkPeriod is how often certificates are looked at when nothing happens.
	checkPeriod = time.Minute
	retryPeriod = 2 * time.Second
	passTimeout = 10 * time.Second
)

// Loop makes a pass whenever something has changed, and from time to time; at most one a second, should somebody else keep on
// changing what a pass writes.
type Loop struct {
	pass    func(context.Context) error
	period  time.Duration
	objects []Object
	log     *zap.Logger
	poked   chan struct{}
	outcome atomic.Pointer[error] // of the last pass
	last    string                // error logged last, so that a lasting fault is logged once
}

// NewLoop makes a loop over a pass that brings objects into agreement. What was changed has settled after that time: another
// pass is made then.
func NewLoop(pass func(context.Context) error, settle time.Duration, log *zap.Logger, objects ...Object) *Loop {
	l := &Loop{pass: pass, period: min(checkPeriod, settle+time.Second), objects: objects, log: log, poked: make(chan struct{}, 1)}
	l.outcome.Store(new(errors.New("the certificates were not read yet")))
	return l
}

// Err is why the last pass failed; nil when it did not.
func (l *Loop) Err() error { return *l.outcome.Load() }

// Run until ctx ends; it always returns nil.
func (l *Loop) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, o := range l.objects {
		g.Go(func() error { return l.watch(ctx, o) })
	}
	g.Go(func() error { return l.passes(ctx) })
	return g.Wait()
}

func (l *Loop) passes(ctx context.Context) error {
	limit := rate.NewLimiter(rate.Every(time.Second), 5)
	for limit.Wait(ctx) == nil {
		next := l.period
		if !l.once(ctx) {
			next = retryPeriod
		}
		select {
		case <-ctx.Done():
		case <-l.poked:
		case <-time.After(next):
		}
	}
	return nil
}

// once says whether a pass went well. A copy that lost the race to write looks again.
func (l *Loop) once(ctx context.Context) bool {
	limited, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	err := l.pass(limited)
	l.outcome.Store(&err)
	if err == nil {
		l.last = ""
		return true
	}
	if message := err.Error(); message != l.last && !apierrors.IsConflict(err) && ctx.Err() == nil {
		l.log.Warn("keeping certificates failed; it is tried again", zap.Error(err))
		l.last = message
	}
	return false
}

// watch pokes the loop when the object changes; what it reads by itself then is what counts.
func (l *Loop) watch(ctx context.Context, o Object) error {
	for ctx.Err() == nil {
		l.follow(ctx, o)
		select {
		case <-ctx.Done():
		case <-time.After(retryPeriod):
		}
	}
	return nil
}

func (l *Loop) follow(ctx context.Context, o Object) {
	w, err := o.Client.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, o.Name).String()})
	if err != nil {
		l.log.Debug("watching for certificates failed; it is tried again", zap.String("name", o.Name), zap.Error(err))
		return
	}
	defer w.Stop()
	for range w.ResultChan() {
		l.poke()
	}
}

func (l *Loop) poke() {
	select {
	case l.poked <- struct{}{}:
	default: // a pass is due already
	}
}
