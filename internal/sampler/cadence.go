package sampler

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"

	"gpustack.ai/model-deployment-scaler/internal/observe"
)

// firstWithin is how long a new role waits for its first pass at most, whatever its interval.
const firstWithin = 15 * time.Second

// cadence tells when a role is scraped (D4). Roles of one deployment share a phase, which its UID gives; a role that another
// sampler scraped before goes on from there.
type cadence struct {
	phase uint64
	// next pass; passes are counted from when they were due, so that lateness does not add up.
	next time.Time
	// last pass that was due; zero before the first.
	last time.Time
	// early says that the first pass did not wait for the phase.
	early bool
}

func newCadence(a observe.Assignment, now time.Time) cadence {
	c := cadence{phase: hash(a.Key.Namespace, a.Key.Deployment, a.Key.UID)}
	if a.LastScrapeAge >= 0 {
		c.next = now.Add(max(0, a.Interval-a.LastScrapeAge))
		return c
	}
	c.next = c.align(now, min(a.Interval, firstWithin))
	c.early = a.Interval > firstWithin
	return c
}

// align is the first time from t on that is in phase.
func (c *cadence) align(t time.Time, period time.Duration) time.Time {
	p := uint64(period)
	past := (uint64(t.UnixNano()) + p - c.phase%p) % p
	if past == 0 {
		return t
	}
	return t.Add(time.Duration(p - past))
}

// done moves on after the pass that was due at c.next. Passes that were missed meanwhile are left out.
func (c *cadence) done(interval time.Duration, now time.Time) {
	c.last = c.next
	c.next = c.last.Add(interval)
	if c.early {
		c.early = false
		c.next = c.align(c.next, interval)
	}
	if missed := now.Sub(c.next); missed > 0 {
		c.next = c.next.Add((missed/interval + 1) * interval)
	}
}

// changed takes another interval over: never sooner after the last pass than that.
func (c *cadence) changed(interval time.Duration, now time.Time) {
	if c.last.IsZero() {
		c.next = earliest(c.next, now.Add(interval))
		return
	}
	c.next = latest(now, c.last.Add(interval))
}

// turn is when in a pass a Pod is scraped.
type turn struct {
	pod    int
	offset time.Duration
}

// spread lists the turns of a role's Pods in their order.
func spread(pods []observe.Pod, interval time.Duration) []turn {
	turns := make([]turn, len(pods))
	for i, p := range pods {
		turns[i] = turn{i, offset(p, interval)}
	}
	slices.SortFunc(turns, func(a, b turn) int { return cmp.Compare(a.offset, b.offset) })
	return turns
}

// offset spreads the Pods of a role over a tenth of the interval, each always at the same place.
func offset(pod observe.Pod, interval time.Duration) time.Duration {
	return time.Duration(hash(pod.UID) % max(1, uint64(interval/10)))
}

func hash(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		_, _ = h.Write([]byte(p))
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
