package stream

import (
	"sync"
	"time"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// maxQueued roles wait for one reader; beyond, the role that waits longest is dropped.
const maxQueued = 1 << 14

// stamped is an observation and when its Age was true, on this process's monotonic clock.
type stamped struct {
	observation observe.RoleObservation
	at          time.Time
}

// current is the observation with its Age as of now (D12).
func (s stamped) current() observe.RoleObservation {
	o := s.observation
	o.Age += time.Since(s.at)
	return o
}

// queue holds what one reader has not been sent yet: the latest observation of each role, roles in order of arrival.
type queue struct {
	wants func(observe.RoleKey) bool
	ready chan struct{} // has a token while something waits

	mu      sync.Mutex
	order   []observe.RoleKey
	waiting map[observe.RoleKey]stamped
}

func newQueue(wants func(observe.RoleKey) bool) *queue {
	return &queue{wants: wants, ready: make(chan struct{}, 1), waiting: map[observe.RoleKey]stamped{}}
}

// offer queues s, replacing an older observation of its role, and says how many observations it displaced.
func (q *queue) offer(s stamped) (dropped int) {
	if !q.wants(s.observation.Key) {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, found := q.waiting[s.observation.Key]; found {
		q.waiting[s.observation.Key] = s
		return 1
	}
	return q.add(s)
}

// seed queues an observation from the backend's memory. When one of its role waits already, that is a later one, or the
// same: only if it is a later one, s has no place in the queue and seed returns false.
func (q *queue) seed(s stamped) bool {
	if !q.wants(s.observation.Key) {
		return true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if w, found := q.waiting[s.observation.Key]; found {
		return w.observation.Sequence == s.observation.Sequence
	}
	q.add(s)
	return true
}

// add queues a role that does not wait.
func (q *queue) add(s stamped) (dropped int) {
	if len(q.order) == maxQueued {
		delete(q.waiting, q.order[0])
		q.order = q.order[1:]
		dropped = 1
	}
	q.order = append(q.order, s.observation.Key)
	q.waiting[s.observation.Key] = s
	signal(q.ready)
	return dropped
}

// take removes the role that waits longest.
func (q *queue) take() (stamped, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.order) == 0 {
		return stamped{}, false
	}
	key := q.order[0]
	q.order = q.order[1:]
	s := q.waiting[key]
	delete(q.waiting, key)
	if len(q.order) > 0 {
		signal(q.ready)
	}
	return s, true
}

// hub hands every published observation to all readers.
type hub struct {
	mu      sync.RWMutex
	readers map[*queue]struct{}
}

func newHub() *hub { return &hub{readers: map[*queue]struct{}{}} }

func (h *hub) subscribe(wants func(observe.RoleKey) bool) *queue {
	q := newQueue(wants)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readers[q] = struct{}{}
	return q
}

func (h *hub) unsubscribe(q *queue) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.readers, q)
}

// publish offers s to all readers and says how many observations were displaced.
func (h *hub) publish(s stamped) (dropped int) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for q := range h.readers {
		dropped += q.offer(s)
	}
	return dropped
}
