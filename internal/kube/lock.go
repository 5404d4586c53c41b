package kube

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// guardedLock remembers until when the Lease is certainly ours, on the monotonic clock and from the moment a renewal was
// sent: a standby waits the whole duration from when it saw it, which is later. So a process that was paused knows better
// the moment it wakes up.
//
// It also refuses to prolong another leadership than the one that was bound: the elector would quietly go on with a Lease
// that was deleted and made anew, or won back, while the epoch in our decisions is the old one (D52).
type guardedLock struct {
	resourcelock.Interface
	duration time.Duration
	try      time.Duration // bounds one call, so that a dead connection does not eat the time for another

	mu          sync.Mutex
	until       time.Time // zero: not held
	bound       bool
	transitions int64
	idle        chan struct{} // closed when the work of the bound leadership has ended
}

// bind fixes the leadership; the Lease is not given back before idle is closed.
func (l *guardedLock) bind(transitions int64, idle chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bound, l.transitions, l.idle = true, transitions, idle
}

// held says whether the Lease is ours for at least margin more.
func (l *guardedLock) held(margin time.Duration) bool { return l.remaining() > margin }

func (l *guardedLock) remaining() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.until.IsZero() {
		return 0
	}
	return time.Until(l.until)
}

// watch calls lost when the Lease is no longer held; it returns then, or when ctx ends.
func (l *guardedLock) watch(ctx context.Context, lost func()) {
	for {
		left := l.remaining()
		if left <= 0 {
			lost()
			return
		}
		// A timer alone would sleep through a shortened Lease; at most a tenth of its length goes by unnoticed.
		timer := time.NewTimer(min(left, l.duration/10))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// Get reads the Lease.
func (l *guardedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, l.try)
	defer cancel()
	return l.Interface.Get(ctx)
}

// Create makes the Lease.
func (l *guardedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.over(func() bool { return l.bound }) {
		return fmt.Errorf("making lease %s: it was deleted while this copy led: %w", l.Describe(), ErrLeaseLost)
	}
	return l.write(ctx, record, l.Interface.Create)
}

// Update renews or releases the Lease.
func (l *guardedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.over(func() bool { return l.bound && int64(record.LeaderTransitions) != l.transitions }) {
		return fmt.Errorf("renewing lease %s: another copy has led since: %w", l.Describe(), ErrLeaseLost)
	}
	return l.write(ctx, record, l.Interface.Update)
}

// over asks whether the bound leadership has ended; the Lease is not held any more then.
func (l *guardedLock) over(ended func() bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !ended() {
		return false
	}
	l.until = time.Time{}
	return true
}

// write notes what a successful write makes of the Lease. One that gives it up counts before it is sent.
func (l *guardedLock) write(ctx context.Context, record resourcelock.LeaderElectionRecord,
	send func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	ours := record.HolderIdentity == l.Identity()
	if !ours {
		l.set(time.Time{})
		if err := l.awaitIdle(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, l.try)
	defer cancel()
	sent := time.Now()
	if err := send(ctx, record); err != nil {
		return err
	}
	if ours {
		l.set(sent.Add(l.duration))
	}
	return nil
}

// awaitIdle: the elector gives the Lease back by itself when it could not renew it in time, while a write may still be on
// its way; another copy must not lead before that has ended.
func (l *guardedLock) awaitIdle(ctx context.Context) error {
	l.mu.Lock()
	idle := l.idle
	l.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("giving lease %s back: the work of this copy has not ended: %w", l.Describe(), ctx.Err())
	}
}

func (l *guardedLock) set(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = until
}
