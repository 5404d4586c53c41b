package decider

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var testScaler = types.NamespacedName{Namespace: "ns", Name: "s"}

// story drives a schedule in a bubble of time and notes when passes began.
type story struct {
	*schedule
	t        *testing.T
	interval time.Duration
	failing  atomic.Bool
	start    time.Time

	mu    sync.Mutex
	began []time.Duration
}

// passes are the times at which passes began so far.
func (s *story) passes() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.began)
}

func (s *story) note() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began = append(s.began, time.Since(s.start))
}

// tell runs a story; its worker passes as the leader's would.
func tell(t *testing.T, interval time.Duration, script func(*story)) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{schedule: newSchedule(nil), t: t, interval: interval, start: time.Now()}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for s.work() {
			}
		}()
		script(s)
		s.queue.ShutDown()
		<-ended
	})
}

func (s *story) work() bool {
	name, down := s.queue.Get()
	if down {
		return false
	}
	defer s.queue.Done(name)
	run, wait := s.begin(name, time.Now())
	switch {
	case !run:
		s.queue.AddAfter(name, wait)
	case s.failing.Load():
		s.note()
		s.fail(name, time.Now(), maxBackoff)
	default:
		s.note()
		s.succeed(name, s.interval)
	}
	return true
}

// at waits until that time of the story.
func (s *story) at(d time.Duration) {
	time.Sleep(time.Until(s.start.Add(d)))
	synctest.Wait()
}

func (s *story) see(d time.Duration, roles ...string) {
	s.at(d)
	for _, role := range roles {
		s.observed(testScaler, role, time.Now())
	}
	synctest.Wait()
}

const second = time.Second

func TestAPassRunsWhenEveryRoleHasANewObservation(t *testing.T) {
	tell(t, 15*second, func(s *story) {
		s.force(testScaler)
		s.expectRoles(testScaler, []string{"prefill", "decode"})
		s.see(14*second, "prefill")
		require.Equal(t, []time.Duration{0}, s.passes())
		s.see(15*second, "prefill")
		require.Len(t, s.passes(), 1)
		s.see(15*second+second/2, "decode")
		require.Equal(t, []time.Duration{0, 15*second + second/2}, s.passes())
		s.see(29*second, "prefill", "decode")
		require.Equal(t, 29*second, s.passes()[2])
	})
}

func TestWithoutObservationsAPassRunsOneIntervalAfterTheLast(t *testing.T) {
	tell(t, 15*second, func(s *story) {
		s.force(testScaler)
		s.expectRoles(testScaler, []string{"server"})
		s.at(40 * second)
		require.Equal(t, []time.Duration{0, 16 * second, 32 * second}, s.passes())
	})
}

func TestAnObservationThatComesLateIsNotHeldBackByThePassBeforeIt(t *testing.T) {
	tell(t, 15*second, func(s *story) {
		s.force(testScaler)
		s.expectRoles(testScaler, []string{"server"})
		s.see(18*second, "server")
		require.Equal(t, []time.Duration{0, 16 * second, 18 * second}, s.passes())
	})
}

func TestATargetThatIsObservedMoreOftenForAnotherScalerIsPlannedAtTheOwnInterval(t *testing.T) {
	tell(t, 15*second, func(s *story) {
		s.force(testScaler)
		s.expectRoles(testScaler, []string{"server"})
		for at := 5 * second; at <= 60*second; at += 5 * second {
			s.see(at, "server")
		}
		require.Equal(t, []time.Duration{0, 5 * second, 20 * second, 35 * second, 50 * second}, s.passes())
	})
}

func TestAScalerThatAnEarlierLeaderReportedWaitsForItsObservations(t *testing.T) {
	tell(t, 15*second, func(s *story) {
		s.expect(testScaler, 15*second, time.Now())
		s.expectRoles(testScaler, []string{"server"})
		s.see(2*second, "server")
		require.Equal(t, []time.Duration{2 * second}, s.passes())
	})
	tell(t, 15*second, func(s *story) { // what it is handed over is old, and the next one is due in time
		s.expect(testScaler, 15*second, time.Now())
		s.expectRoles(testScaler, []string{"server"})
		s.at(2 * second)
		s.observed(testScaler, "server", time.Now().Add(-11*second))
		s.see(6*second, "server")
		require.Equal(t, []time.Duration{2 * second, 6 * second}, s.passes())
	})
	tell(t, 15*second, func(s *story) {
		s.expect(testScaler, 15*second, time.Now())
		s.at(17 * second)
		require.Equal(t, []time.Duration{16 * second}, s.passes())
	})
}

func TestAfterFailuresNothingRunsBeforeTheBackoffWhateverHappens(t *testing.T) {
	tell(t, 5*second, func(s *story) {
		s.failing.Store(true)
		s.force(testScaler)
		s.expectRoles(testScaler, []string{"server"})
		for at := second / 10; at < 300*second; at += second / 10 {
			s.see(at, "server")
			s.force(testScaler)
		}
		require.InDelta(t, 12, len(s.passes()), 3, "1 + 2 + 4 + 8 + 16 and then every 30 seconds")
		s.failing.Store(false)
		failed := len(s.passes())
		s.at(345 * second)
		require.Greater(t, len(s.passes()), failed)
	})
}

func TestARoleThatWasObservedNeedNotBeObservedAgainBecauseAnotherOneCame(t *testing.T) {
	tell(t, 15*second, func(s *story) {
		s.force(testScaler)
		s.expectRoles(testScaler, []string{"prefill", "decode"})
		s.see(14*second, "prefill")
		s.expectRoles(testScaler, []string{"prefill", "decode", "encode"})
		s.see(15*second, "decode", "encode")
		require.Equal(t, []time.Duration{0, 15 * second}, s.passes())
	})
}

func TestBackoffGrowsStaysBoundedAndDiffers(t *testing.T) {
	for _, bound := range []time.Duration{maxBackoff, briefBackoff} {
		different := map[time.Duration]bool{}
		for failures := range 100 {
			wait := backoff(failures, bound)
			require.GreaterOrEqual(t, wait, firstBackoff)
			require.LessOrEqual(t, wait, 7*bound/5)
			different[wait] = true
		}
		require.Greater(t, len(different), 50)
	}
}

func TestAPassThatLostToAnotherWriterIsTriedAgainSoonerThanOneThatIsRefused(t *testing.T) {
	target := schema.GroupResource{Group: "worker.gpustack.ai", Resource: "modeldeployments"}
	for name, row := range map[string]struct {
		err   error
		bound time.Duration
	}{
		"somebody else wrote":        {fmt.Errorf("writing: %w", apierrors.NewConflict(target, "md", nil)), briefBackoff},
		"the object is refused":      {fmt.Errorf("writing: %w", apierrors.NewInvalid(schema.GroupKind{}, "md", nil)), maxBackoff},
		"the API server is too busy": {apierrors.NewTooManyRequestsError("try later"), maxBackoff},
	} {
		t.Run(name, func(t *testing.T) {
			l := &leader{log: zap.NewNop(), schedule: newSchedule(nil)}
			defer l.schedule.queue.ShutDown()
			for range 10 {
				l.failed(testScaler, row.err)
			}
			wait := time.Until(l.schedule.timings[testScaler].retry)
			require.Greater(t, wait, row.bound/2)
			require.LessOrEqual(t, wait, 7*row.bound/5)
		})
	}
}

func TestAScalerThatIsGoneLeavesNothing(t *testing.T) {
	tell(t, 15*second, func(s *story) {
		s.force(testScaler)
		s.at(second)
		s.forget(testScaler)
		require.Empty(t, s.timings)
		s.observed(testScaler, "server", time.Now())
		require.Empty(t, s.timings)
	})
}
