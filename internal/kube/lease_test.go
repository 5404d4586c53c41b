package kube

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"gpustack.ai/model-deployment-scaler/internal/fence"
)

// candidate is one copy in an election with short times.
type candidate struct {
	*Election
	epochs chan fence.Epoch
	ended  chan error
	stop   context.CancelFunc
}

func (w *world) candidate(identity string) *candidate {
	w.t.Helper()
	e, err := NewElection(w.client.Leases, ElectionOptions{
		Namespace: w.namespace, Name: "decider", Identity: identity,
		Duration: 9 * time.Second, RenewDeadline: 6 * time.Second, RetryPeriod: 200 * time.Millisecond,
	})
	require.NoError(w.t, err)
	ctx, stop := context.WithCancel(w.t.Context())
	c := &candidate{Election: e, epochs: make(chan fence.Epoch, 1), ended: make(chan error, 1), stop: stop}
	go func() {
		c.ended <- e.Run(ctx, func(ctx context.Context, epoch fence.Epoch) error {
			c.epochs <- epoch
			<-ctx.Done()
			return nil
		})
	}()
	w.t.Cleanup(stop)
	return c
}

func (c *candidate) awaitLeading(t *testing.T) fence.Epoch {
	t.Helper()
	select {
	case epoch := <-c.epochs:
		return epoch
	case err := <-c.ended:
		require.FailNow(t, "the election ended before it was won", "%v", err)
	case <-time.After(patience):
		require.FailNow(t, "the election was not won in time")
	}
	return fence.Epoch{}
}

func (c *candidate) awaitEnd(t *testing.T) error {
	t.Helper()
	select {
	case err := <-c.ended:
		return err
	case <-time.After(patience):
		require.FailNow(t, "the election did not end in time")
		return nil
	}
}

func (w *world) lease() *coordinationv1.Lease {
	w.t.Helper()
	lease, err := w.client.Core.CoordinationV1().Leases(w.namespace).Get(w.t.Context(), "decider", metav1.GetOptions{})
	require.NoError(w.t, err)
	return lease
}

// awaitGivenBack waits until nobody holds the Lease: Run does not wait for an answer that is late.
func (w *world) awaitGivenBack() {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return *w.lease().Spec.HolderIdentity == "" }, patience, tick, "the lease was not given back")
}

func TestAnOrderlyLeaderGivesTheLeaseBackAndTheNextHasAHigherEpoch(t *testing.T) {
	w := newWorld(t)
	first := w.candidate("first")
	epoch := first.awaitLeading(t)
	require.Equal(t, fence.Epoch{LeaseUID: string(w.lease().UID), Transitions: 0}, epoch)
	require.Equal(t, "first", first.Leader())
	require.NoError(t, first.Check())

	first.stop()
	require.NoError(t, first.awaitEnd(t))
	w.awaitGivenBack()
	_, _, err := first.Write(t.Context())
	require.ErrorIs(t, err, ErrLeaseLost)

	second := w.candidate("second").awaitLeading(t)
	require.Equal(t, epoch.LeaseUID, second.LeaseUID)
	require.Equal(t, int64(1), second.Transitions)
}

func TestAStandbyEndsInOrderWithoutTouchingTheLease(t *testing.T) {
	w := newWorld(t)
	leader := w.candidate("leader")
	leader.awaitLeading(t)
	standby := w.candidate("standby")
	require.Eventually(t, func() bool { return standby.Leader() == "leader" }, patience, tick)
	_, _, err := standby.Write(t.Context())
	require.ErrorIs(t, err, ErrLeaseLost)

	standby.stop()
	require.NoError(t, standby.awaitEnd(t))
	require.Equal(t, "leader", *w.lease().Spec.HolderIdentity)
}

func TestALeaderStepsDownWhenTheLeaseIsNotItsOwnAnyMore(t *testing.T) {
	for name, take := range map[string]func(*world){
		"it was deleted": func(w *world) {
			require.NoError(w.t, w.client.Core.CoordinationV1().Leases(w.namespace).Delete(w.t.Context(), "decider", metav1.DeleteOptions{}))
		},
		"somebody else had it in between": func(w *world) {
			require.Eventually(w.t, func() bool {
				lease := w.lease()
				transitions, holder, seconds := *lease.Spec.LeaseTransitions+1, "", int32(1)
				lease.Spec.LeaseTransitions, lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &transitions, &holder, &seconds
				_, err := w.client.Core.CoordinationV1().Leases(w.namespace).Update(w.t.Context(), lease, metav1.UpdateOptions{})
				return err == nil
			}, patience, tick)
		},
		"somebody else has it": func(w *world) {
			require.Eventually(w.t, func() bool {
				lease, thief := w.lease(), "thief"
				lease.Spec.HolderIdentity = &thief
				_, err := w.client.Core.CoordinationV1().Leases(w.namespace).Update(w.t.Context(), lease, metav1.UpdateOptions{})
				return err == nil
			}, patience, tick)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			leader := w.candidate("leader")
			leader.awaitLeading(t)
			take(w)
			require.ErrorIs(t, leader.awaitEnd(t), ErrLeaseLost)
			_, _, err := leader.Write(t.Context())
			require.ErrorIs(t, err, ErrLeaseLost)
		})
	}
}

// deadLock answers until it is cut off; then every call hangs until its context ends, as a dead connection does.
type deadLock struct {
	resourcelock.Interface
	cut atomic.Bool
}

func (l *deadLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return nil, nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), "decider")
}
func (l *deadLock) Create(ctx context.Context, _ resourcelock.LeaderElectionRecord) error {
	return l.answer(ctx)
}
func (l *deadLock) Update(ctx context.Context, _ resourcelock.LeaderElectionRecord) error {
	return l.answer(ctx)
}
func (l *deadLock) Identity() string { return "leader" }
func (l *deadLock) Describe() string { return "ns/decider" }

func (l *deadLock) answer(ctx context.Context) error {
	if !l.cut.Load() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func TestALockIsHeldFromTheMomentThatTheRenewalWasSent(t *testing.T) {
	lock := &guardedLock{Interface: &deadLock{}, duration: 10 * time.Second, try: time.Second}
	require.False(t, lock.held(0))
	ours := resourcelock.LeaderElectionRecord{HolderIdentity: "leader"}
	require.NoError(t, lock.Update(t.Context(), ours))
	require.True(t, lock.held(5*time.Second))
	require.False(t, lock.held(10*time.Second))

	require.NoError(t, lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}))
	require.False(t, lock.held(0), "released")
}

func TestAFailedRenewalDoesNotProlongTheLease(t *testing.T) {
	dead := &deadLock{}
	lock := &guardedLock{Interface: dead, duration: 500 * time.Millisecond, try: 100 * time.Millisecond}
	ours := resourcelock.LeaderElectionRecord{HolderIdentity: "leader"}
	require.NoError(t, lock.Update(t.Context(), ours))
	dead.cut.Store(true)
	require.Error(t, lock.Update(t.Context(), ours))
	lost := make(chan struct{})
	go lock.watch(t.Context(), func() { close(lost) })
	select {
	case <-lost:
	case <-time.After(patience):
		require.FailNow(t, "the end of the lease was not noticed")
	}
	require.False(t, lock.held(0))
}

func TestLosingTheLeaseEndsTheWorkWhileEveryCallHangs(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	dead := &deadLock{}
	e := &Election{options: ElectionOptions{Identity: "leader"}, lock: &guardedLock{Interface: dead, duration: time.Second, try: 300 * time.Millisecond}}
	require.NoError(t, e.lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "leader"}))
	dead.cut.Store(true)

	ctx, cancel := context.WithCancelCause(t.Context())
	go e.lock.watch(ctx, func() { cancel(ErrLeaseLost) })
	<-ctx.Done()
	require.ErrorIs(t, context.Cause(ctx), ErrLeaseLost)
	_, _, err := e.Write(t.Context())
	require.ErrorIs(t, err, ErrLeaseLost)
	goleak.VerifyNone(t, ignore)
}

func TestAWriteMayTakeNoLongerThanTheMarginAndOutlivesAShutdown(t *testing.T) {
	e := &Election{
		options: ElectionOptions{Duration: 15 * time.Second, RenewDeadline: 10 * time.Second},
		lock:    &guardedLock{Interface: &deadLock{}, duration: 15 * time.Second, try: time.Second},
	}
	require.NoError(t, e.lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "leader"}))
	parent, shutdown := context.WithCancel(t.Context())
	ctx, done, err := e.Write(parent)
	require.NoError(t, err)
	defer done()
	shutdown()
	require.NoError(t, ctx.Err())
	deadline, limited := ctx.Deadline()
	require.True(t, limited)
	require.LessOrEqual(t, time.Until(deadline), 5*time.Second)
}

// noRenewals lets everything through but renewals, once it is on.
type noRenewals struct {
	coordinationclient.LeasesGetter
	on atomic.Bool
}

func (r *noRenewals) Leases(namespace string) coordinationclient.LeaseInterface {
	return notRenewed{r.LeasesGetter.Leases(namespace), &r.on}
}

type notRenewed struct {
	coordinationclient.LeaseInterface
	on *atomic.Bool
}

func (l notRenewed) Update(ctx context.Context, lease *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if l.on.Load() && *lease.Spec.HolderIdentity != "" {
		return nil, apierrors.NewServiceUnavailable("no renewals")
	}
	return l.LeaseInterface.Update(ctx, lease, o)
}

func TestALeaseThatCannotBeRenewedIsGivenBackOnlyAfterTheWorkHasEnded(t *testing.T) {
	w := newWorld(t)
	leases := &noRenewals{LeasesGetter: w.client.Leases}
	e, err := NewElection(leases, ElectionOptions{Namespace: w.namespace, Name: "decider", Identity: "leader",
		Duration: 9 * time.Second, RenewDeadline: 6 * time.Second, RetryPeriod: 200 * time.Millisecond})
	require.NoError(t, err)
	holder := ""
	err = e.Run(t.Context(), func(ctx context.Context, _ fence.Epoch) error {
		leases.on.Store(true)
		<-ctx.Done()
		holder = *w.lease().Spec.HolderIdentity
		return nil
	})
	require.ErrorIs(t, err, ErrLeaseLost)
	require.Equal(t, "leader", holder, "while the work went on")
	w.awaitGivenBack()
}

func TestAnErrorOfTheWorkIsReturned(t *testing.T) {
	w := newWorld(t)
	e, err := NewElection(w.client.Leases, ElectionOptions{Namespace: w.namespace, Name: "decider", Identity: "leader",
		Duration: 9 * time.Second, RenewDeadline: 6 * time.Second, RetryPeriod: 200 * time.Millisecond})
	require.NoError(t, err)
	broken := errors.New("broken")
	require.ErrorIs(t, e.Run(t.Context(), func(context.Context, fence.Epoch) error { return broken }), broken)
	w.awaitGivenBack()
}
