package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"gpustack.ai/model-deployment-scaler/internal/fence"
)

// ErrLeaseLost ends a leadership that the Lease no longer backs.
var ErrLeaseLost = errors.New("the lease was lost; another copy takes over")

const (
	// releaseTimeout bounds what giving the Lease back may take; without an answer it simply expires.
	releaseTimeout = 2 * time.Second
	// finishTimeout is how long the work of a leader may take to end.
	finishTimeout = 7 * time.Second
	// watchdogSlack is how long after the Lease's end a process that has not stepped down may be called alive.
	watchdogSlack = 20 * time.Second
)

// ElectionOptions name the Lease and its timing.
type ElectionOptions struct {
	Namespace, Name, Identity string
	// Duration of the Lease, RenewDeadline after which a leader that cannot renew gives up, RetryPeriod between two tries.
	Duration, RenewDeadline, RetryPeriod time.Duration
}

// Election campaigns for one Lease and answers whether it is still held (D37).
type Election struct {
	options ElectionOptions
	leases  coordinationv1.LeasesGetter
	lock    *guardedLock
	elector *leaderelection.LeaderElector
	won     chan struct{}
}

// NewElection makes an election; Run campaigns.
func NewElection(leases coordinationv1.LeasesGetter, o ElectionOptions) (*Election, error) {
	e := &Election{options: o, leases: leases, won: make(chan struct{})}
	e.lock = &guardedLock{
		Interface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name},
			Client:     leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: o.Identity},
			Labels:     map[string]string{"app.kubernetes.io/name": "model-deployment-scaler", "app.kubernetes.io/managed-by": FieldManager},
		},
		duration: o.Duration, try: o.RenewDeadline / 3,
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: e.lock, Name: o.Name,
		LeaseDuration: o.Duration, RenewDeadline: o.RenewDeadline, RetryPeriod: o.RetryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(e.won) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the election for lease %s/%s: %w", o.Namespace, o.Name, err)
	}
	e.elector = elector
	return e, nil
}

// Run campaigns until ctx ends and returns nil, or leads once: lead runs with a context that ends with ctx or the moment the
// Lease cannot be relied on, and Run returns what lead returned, or ErrLeaseLost. The Lease is given back only after lead has
// returned, so that nothing can be written once another may lead; if lead does not end in time the Lease is left to expire.
// An Election runs once.
func (e *Election) Run(ctx context.Context, lead func(context.Context, fence.Epoch) error) error {
	campaign, retire := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.elector.Run(campaign)
	}()
	release := func() {
		retire()
		within(releaseTimeout, ended)
	}
	select {
	case <-ctx.Done():
		release()
		return nil
	case <-e.won:
	}
	err := e.lead(ctx, lead)
	if !errors.Is(err, errUnfinished) {
		release()
	}
	return err
}

// errUnfinished: the work did not end when it was told to.
var errUnfinished = errors.New("the work of the leader did not end in time; the lease is left to expire")

// lead runs the work under the Lease.
func (e *Election) lead(ctx context.Context, lead func(context.Context, fence.Epoch) error) error {
	leading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	epoch, err := e.readEpoch(leading)
	if err != nil {
		return err
	}
	finished := make(chan struct{})
	e.lock.bind(epoch.Transitions, finished)
	go e.lock.watch(leading, func() { cancel(ErrLeaseLost) })
	go func() {
		defer close(finished)
		err = lead(leading, epoch)
	}()
	select {
	case <-finished:
	case <-leading.Done():
		if !within(finishTimeout, finished) {
			return errUnfinished
		}
	}
	if errors.Is(context.Cause(leading), ErrLeaseLost) {
		return ErrLeaseLost
	}
	return err
}

// within waits for done, so long.
func within(limit time.Duration, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

// readEpoch identifies the leadership that was just won (D52).
func (e *Election) readEpoch(ctx context.Context) (fence.Epoch, error) {
	ctx, cancel := context.WithTimeout(ctx, e.options.RenewDeadline)
	defer cancel()
	o := e.options
	lease, err := e.leases.Leases(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return fence.Epoch{}, fmt.Errorf("reading lease %s/%s after winning it: %w", o.Namespace, o.Name, err)
	}
	record := resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
	if record.HolderIdentity != o.Identity {
		return fence.Epoch{}, fmt.Errorf("reading lease %s/%s after winning it: %s holds it: %w", o.Namespace, o.Name, record.HolderIdentity, ErrLeaseLost)
	}
	return fence.Epoch{LeaseUID: string(lease.UID), Transitions: int64(record.LeaderTransitions)}, nil
}

// margin is how long before its end the Lease is no longer relied on, and so the longest a write may take.
func (e *Election) margin() time.Duration { return e.options.Duration - e.options.RenewDeadline }

// Write gives a context for one write, or ErrLeaseLost: the Lease is held for at least the margin more, and the context ends
// within it. An orderly shutdown does not cut it off: a write that was begun is finished (D37).
func (e *Election) Write(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if !e.lock.held(e.margin()) {
		return nil, nil, ErrLeaseLost
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.margin())
	return ctx, cancel, nil
}

// Check fails when the Lease ended long ago and the process has not noticed: a live check.
func (e *Election) Check() error { return e.elector.Check(watchdogSlack) }

// Leader is the identity that holds the Lease as far as this copy knows; empty when nobody.
func (e *Election) Leader() string { return e.elector.GetLeader() }
