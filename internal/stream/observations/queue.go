package observations

import "sync"

// maxQueued changes wait for one reader. Roles replace each other, so that only roles that went can add up to more than there
// are; a reader that far behind is ended.
const maxQueued = 1 << 16

// queue holds what one reader has not been sent yet: the latest of each role, roles in order of arrival.
type queue struct {
	wants selector
	ready chan struct{} // has a token while something waits

	mu      sync.Mutex
	order   []key
	waiting map[key]*entry
	over    bool // something had no room
}

func newQueue(wants selector) *queue {
	return &queue{wants: wants, ready: make(chan struct{}, 1), waiting: make(map[key]*entry)}
}

// offer queues e and says how many changes it displaced.
func (q *queue) offer(e *entry) (dropped int) {
	if !q.wants.selects(e.key) {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, found := q.waiting[e.key]; found {
		q.waiting[e.key] = e
		return 1
	}
	if len(q.order) >= maxQueued {
		q.over = true
		return 1
	}
	q.order = append(q.order, e.key)
	q.waiting[e.key] = e
	q.signal()
	return 0
}

// take removes the role that waits longest; nil when none waits. over says that the reader has missed what cannot be made up.
func (q *queue) take() (e *entry, over bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.order) == 0 || q.over {
		return nil, q.over
	}
	first := q.order[0]
	q.order = q.order[1:]
	e = q.waiting[first]
	delete(q.waiting, first)
	if len(q.order) > 0 {
		q.signal()
	}
	return e, false
}

func (q *queue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}
