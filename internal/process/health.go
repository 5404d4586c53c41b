package process

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Health holds the named checks behind /livez and /readyz. Leadership is never one of them: a standby is ready.
type Health struct {
	mu          sync.Mutex
	live, ready []check
}

type check struct {
	name string
	run  func() error
}

func newHealth() *Health { return &Health{} }

// AddLive adds a check whose failure means: restart me.
func (h *Health) AddLive(name string, run func() error) { h.add(&h.live, name, run) }

// AddReady adds a check whose failure means: send me nothing yet.
func (h *Health) AddReady(name string, run func() error) { h.add(&h.ready, name, run) }

func (h *Health) add(list *[]check, name string, run func() error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*list = append(*list, check{name, run})
}

// handler answers 200 "ok" or 503 with the failed checks; ?verbose lists all of them.
func (h *Health) handler(list *[]check) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		checks := *list
		h.mu.Unlock()
		var report strings.Builder
		failed := false
		for _, c := range checks {
			if err := c.run(); err != nil {
				failed = true
				fmt.Fprintf(&report, "[-] %s: %v\n", c.name, err)
			} else if r.URL.Query().Has("verbose") {
				fmt.Fprintf(&report, "[+] %s ok\n", c.name)
			}
		}
		if failed {
			w.WriteHeader(http.StatusServiceUnavailable)
		} else {
			report.WriteString("ok\n")
		}
		_, _ = w.Write([]byte(report.String()))
	}
}

// Heartbeat tells that a loop still ticks. Until the first beat it counts from its making.
type Heartbeat struct {
	limit time.Duration
	made  time.Time
	last  atomic.Int64 // nanoseconds since made, monotonic
}

// NewHeartbeat makes a heartbeat that fails when the last beat is older than limit.
func NewHeartbeat(limit time.Duration) *Heartbeat {
	return &Heartbeat{limit: limit, made: time.Now()}
}

// Beat notes that the loop ticked.
func (b *Heartbeat) Beat() { b.last.Store(int64(time.Since(b.made))) }

// Check is a live check.
func (b *Heartbeat) Check() error {
	if age := time.Since(b.made) - time.Duration(b.last.Load()); age > b.limit {
		return fmt.Errorf("last tick was %s ago, the limit is %s", age.Round(time.Second), b.limit)
	}
	return nil
}
