package sampler

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"gpustack.ai/model-deployment-scaler/internal/observe"
	"gpustack.ai/model-deployment-scaler/internal/scrape"
	"gpustack.ai/model-deployment-scaler/internal/windows"
)

// maxMessage is the longest message about an uncovered Pod, in bytes.
const maxMessage = 256

// scraper reads one Pod before the deadline of ctx.
type scraper interface {
	Scrape(ctx context.Context, pod observe.Pod, hint observe.Engine) (scrape.Result, error)
}

// role is one assigned role. Its loop runs in one goroutine, which alone touches windows and failures.
type role struct {
	key      observe.RoleKey
	fleet    *fleet
	windows  windows.Role
	failures failures
	changed  chan struct{} // has a token after a new assignment

	stop context.CancelFunc
	done chan struct{}

	mu         sync.Mutex
	assignment observe.Assignment
	cadence    cadence
	latest     observe.RoleObservation // Sequence 0: none yet
}

func newRole(f *fleet, a observe.Assignment, now time.Time) *role {
	return &role{
		key: a.Key, fleet: f, failures: failures{log: f.log.With(zap.Stringer("role", a.Key))}, changed: make(chan struct{}, 1), done: make(chan struct{}),
		assignment: ordered(a), cadence: newCadence(a, now),
	}
}

// ordered lists Pods by ordinal, so that the cap always chooses the same ones (D2).
func ordered(a observe.Assignment) observe.Assignment {
	a.Pods = slices.Clone(a.Pods)
	slices.SortFunc(a.Pods, func(p, q observe.Pod) int {
		return cmp.Or(cmp.Compare(p.Ordinal, q.Ordinal), cmp.Compare(p.Name, q.Name))
	})
	return a
}

// assign takes a new description over; what is known of unchanged Pods stays.
func (r *role) assign(a observe.Assignment, now time.Time) {
	r.mu.Lock()
	if a.Interval != r.assignment.Interval {
		r.cadence.changed(a.Interval, now)
	}
	r.assignment = ordered(a)
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default: // it will look anyway
	}
}

// run makes a pass whenever one is due, until ctx ends.
func (r *role) run(ctx context.Context) {
	defer close(r.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		a, due := r.due()
		timer.Reset(time.Until(due))
		select {
		case <-ctx.Done():
			return
		case <-r.changed:
		case <-timer.C:
			r.pass(ctx, a, due)
		}
	}
}

func (r *role) due() (observe.Assignment, time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.assignment, r.cadence.next
}

// pass scrapes the selected Pods, each at its own offset and for its own time at most, and publishes what they said. It is
// over before the next one is due, so that no Pod is ever scraped twice at once.
func (r *role) pass(ctx context.Context, a observe.Assignment, due time.Time) {
	start := time.Now()
	r.fleet.metrics.late.Observe(start.Sub(due).Seconds())
	results := make([]windows.PodResult, min(len(a.Pods), r.fleet.maxPods))
	hint := scrape.EngineNamed(a.Engine)
	var scrapes sync.WaitGroup
	for _, t := range spread(a.Pods[:len(results)], a.Interval) {
		if !sleep(ctx, time.Until(start.Add(t.offset))) {
			break
		}
		scrapes.Go(func() { results[t.pod] = r.scrape(ctx, a.Pods[t.pod], a.Interval, hint) })
	}
	scrapes.Wait()
	if ctx.Err() != nil {
		return
	}
	o := r.windows.Pass(a, start, time.Now(), results)
	r.failures.report(o)
	r.keep(o)
	r.fleet.publish(o)
}

func (r *role) scrape(ctx context.Context, pod observe.Pod, interval time.Duration, hint observe.Engine) windows.PodResult {
	ctx, cancel := context.WithTimeout(ctx, min(r.fleet.timeout, interval/2))
	defer cancel()
	start := time.Now()
	answer, err := r.fleet.scraper.Scrape(ctx, pod, hint)
	result := windows.PodResult{At: time.Now(), Sample: answer.Sample}
	if err != nil {
		result.Reason, result.Message = scrape.ReasonOf(err), cut(err.Error())
	}
	r.fleet.metrics.scraped(result.Reason, answer.Sample.Engine, result.At.Sub(start), answer.Bytes)
	return result
}

// keep remembers o and moves on to the next pass.
func (r *role) keep(o observe.RoleObservation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fleet.metrics.covered(r.latest.Coverage, o.Coverage)
	r.latest = o
	r.fleet.memory.add(o)
	r.cadence.done(r.assignment.Interval, time.Now())
}

// forget takes the role out of the metrics; its loop has ended.
func (r *role) forget() { r.fleet.metrics.covered(r.latest.Coverage, observe.Coverage{}) }

// overdue is by how much the pass that is due should have been over: one takes less than an interval.
func (r *role) overdue(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Sub(r.cadence.next) - r.assignment.Interval*3/2
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func cut(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "")
}
