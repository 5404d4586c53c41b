package decider

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
)

const (
	// patience is how long after the interval a pass still waits for observations that arrive with jitter.
	patience = time.Second
	// firstBackoff and maxBackoff bound the wait after failed passes, which doubles with each.
	firstBackoff = time.Second
	maxBackoff   = 30 * time.Second
	// briefBackoff is the bound where a longer wait makes the next try no likelier to succeed: an API server is away, or
	// somebody else was quicker to write. What the API server refuses for another reason, it goes on to refuse.
	briefBackoff = 4 * time.Second
	// slowestFeed is the least part of a scaler's interval between two observations that begin passes: a target that another
	// scaler observes at a shorter interval (D4) does not make this one plan more often than its policy says.
	slowestFeed = 0.8
)

// schedule says when a scaler's pass runs: as soon as every role has a new observation, or one interval after the last pass
// (D56), at once when its object moved, and after failures only when the backoff is over.
type schedule struct {
	queue workqueue.TypedDelayingInterface[types.NamespacedName]

	mu      sync.Mutex
	timings map[types.NamespacedName]*timing
}

// timing of one scaler. Times are monotonic.
type timing struct {
	interval time.Duration
	roles    []string        // that observations are expected of
	waiting  map[string]bool // of these, those without a new observation
	forced   bool            // the object moved
	last     time.Time       // begin of the last pass
	made     time.Time       // when the newest observation was
	fed      time.Time       // the same, of the last pass that observations began
	failures int
	retry    time.Time // nothing runs before
}

// newSchedule makes an empty schedule, whose queue tells provider what it does; nil: nobody.
func newSchedule(provider workqueue.MetricsProvider) *schedule {
	return &schedule{
		queue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[types.NamespacedName]{
			Name: "passes", MetricsProvider: provider,
		}),
		timings: make(map[types.NamespacedName]*timing),
	}
}

// force asks for a pass now.
func (s *schedule) force(name types.NamespacedName) {
	s.mu.Lock()
	s.timing(name).forced = true
	s.mu.Unlock()
	s.queue.Add(name)
}

// expect begins to wait for a scaler's first observations: a pass runs one interval from now at the latest.
func (s *schedule) expect(name types.NamespacedName, interval time.Duration, now time.Time) {
	s.mu.Lock()
	t := s.timing(name)
	t.interval, t.last = interval, now
	s.mu.Unlock()
	s.queue.AddAfter(name, interval+patience)
}

// expectRoles says which roles observations are expected of from now on.
func (s *schedule) expectRoles(name types.NamespacedName, roles []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timings[name] == nil {
		s.queue.AddAfter(name, slowestInterval) // should it have gone at this very moment, that turn forgets it
	}
	t := s.timing(name)
	waiting := make(map[string]bool, len(roles))
	for _, role := range roles {
		if t.waiting[role] || !slices.Contains(t.roles, role) {
			waiting[role] = true
		}
	}
	t.roles, t.waiting = roles, waiting
}

// observed notes a new observation of a role, made at a time; the last one that was missing begins a pass.
func (s *schedule) observed(name types.NamespacedName, role string, made time.Time) {
	s.mu.Lock()
	t := s.timings[name]
	if t == nil || made.Sub(t.fed) < time.Duration(slowestFeed*float64(t.interval)) {
		s.mu.Unlock()
		return
	}
	if made.After(t.made) {
		t.made = made
	}
	delete(t.waiting, role)
	complete := t.complete()
	s.mu.Unlock()
	if complete {
		s.queue.Add(name)
	}
}

func (t *timing) complete() bool { return len(t.roles) > 0 && len(t.waiting) == 0 }

// begin says whether a pass is to run now; if not, when to ask again.
func (s *schedule) begin(name types.NamespacedName, now time.Time) (run bool, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.timing(name)
	if left := t.retry.Sub(now); left > 0 {
		return false, left
	}
	fed := t.complete()
	if due := t.last.Add(t.interval + patience).Sub(now); !t.forced && !fed && due > 0 {
		return false, due
	}
	if fed {
		t.fed = t.made
	}
	t.last, t.forced = now, false
	t.waiting = make(map[string]bool, len(t.roles))
	for _, role := range t.roles {
		t.waiting[role] = true
	}
	return true, 0
}

// succeed plans the next pass.
func (s *schedule) succeed(name types.NamespacedName, interval time.Duration) {
	s.mu.Lock()
	t := s.timing(name)
	t.interval, t.failures, t.retry = interval, 0, time.Time{}
	s.mu.Unlock()
	s.queue.AddAfter(name, interval+patience)
}

// fail plans another try, later with every failure up to a bound, and never all scalers at once. It says how many have failed
// in a row.
func (s *schedule) fail(name types.NamespacedName, now time.Time, bound time.Duration) int {
	s.mu.Lock()
	t := s.timing(name)
	delay := backoff(t.failures, bound)
	t.failures++
	t.forced, t.retry = true, now.Add(delay)
	failures := t.failures
	s.mu.Unlock()
	s.queue.AddAfter(name, delay)
	return failures
}

// backoff after that many earlier failures, and up to two fifths more.
func backoff(failures int, bound time.Duration) time.Duration {
	return wait.Jitter(min(bound, firstBackoff<<min(failures, 5)), 0.4)
}

// forget drops a scaler that is gone.
func (s *schedule) forget(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.timings, name)
}

// timing of a scaler, made when it is new; with s.mu held.
func (s *schedule) timing(name types.NamespacedName) *timing {
	t := s.timings[name]
	if t == nil {
		t = &timing{}
		s.timings[name] = t
	}
	return t
}
