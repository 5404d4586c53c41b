package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"gpustack.ai/model-deployment-scaler/dev/measure"
)

// latencies in ascending order.
type latencies []time.Duration

// since tells how long after its observation each of names was seen in times; who was not is left out.
func since(observed, times map[deployment]time.Time, names []deployment) (list latencies) {
	for _, name := range names {
		from, known := observed[name]
		if to, seen := times[name]; known && seen {
			list = append(list, to.Sub(from))
		}
	}
	slices.Sort(list)
	return list
}

// at is the quantile q.
func (l latencies) at(q float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	return l[min(len(l)-1, int(q*float64(len(l))))]
}

func (l latencies) within(d time.Duration) int {
	n, _ := slices.BinarySearch(l, d)
	return n
}

// report prints the figures, and is an error when the decider cost too much, wrote when nothing happened, or starved anybody.
func report(w io.Writer, o options, m *measured) error {
	const kb, mb = 1 << 10, 1 << 20
	perScaler := m.steady.maxRSS / float64(o.scalers)
	expected := float64(o.scalers) * m.steady.seconds / interval.Seconds()
	fmt.Fprintf(w, "machine              %s, shared by API server, samplers and decider; the decider may use %d\n", measure.Machine(), o.cores)
	fmt.Fprintf(w, "fleet                %d scalers, %d roles, %d samplers, every %s\n", o.scalers, o.scalers*len(roleNames), o.samplers, interval)
	fmt.Fprintf(w, "takeover             every scaler planned %s after the start, with 30 minutes of replay; %.0f MB resident at most\n", m.takeover.Round(100*time.Millisecond), m.takeoverRSS/mb)
	fmt.Fprintf(w, "steady               %.0f passes in %.0f s (%.0f are one an interval), %.0f failed\n", m.steady.passes, m.steady.seconds, expected, m.steady.failed)
	m.steady.print(w)
	fmt.Fprintf(w, "  memory             %.0f MB resident at most, %.0f MB heap: %.1f KB a scaler, all in\n", m.steady.maxRSS/mb, m.steady.heap/mb, perScaler/kb)
	fmt.Fprintf(w, "reaction             %d of %d grew; from the step of the demand to the commit p50 %s, p99 %s, at most %s\n", len(m.reactions), stepping,
		round(m.reactions.at(0.5)), round(m.reactions.at(0.99)), round(m.reactions.at(1)))
	fmt.Fprintf(w, "burst                %d of %d grew, after %.0f s; %d in time (one interval)\n", len(m.commits), m.bursting, m.burst.seconds, m.reports.within(interval))
	m.burst.print(w)
	fmt.Fprintf(w, "  observed to commit p50 %s, p99 %s, at most %s\n", round(m.commits.at(0.5)), round(m.commits.at(0.99)), round(m.commits.at(1)))
	fmt.Fprintf(w, "  observed to status p50 %s, p99 %s, at most %s\n", round(m.reports.at(0.5)), round(m.reports.at(0.99)), round(m.reports.at(1)))
	f := m.failover
	fmt.Fprintf(w, "fail-over            another leads %s after the SIGKILL of the leader; from then, the first plan took %s, half of all %s, 99 %% %s\n",
		round(f.led), upTo(f.first), upTo(f.p50), upTo(f.p99))
	fmt.Fprintf(w, "  memory             %.0f MB standing by, %.0f MB at most when it took over\n", m.standbyRSS/mb, f.rss/mb)
	var errs []error
	check := func(right bool, format string, a ...any) {
		if !right {
			errs = append(errs, fmt.Errorf(format, a...))
		}
	}
	check(m.steady.p99 < 1, "99 %% of the passes took up to %gs, over 1s", m.steady.p99)
	check(m.steady.passes >= 0.95*expected, "%.0f passes ran where %.0f are one an interval", m.steady.passes, expected)
	check(m.steady.changed() == 0, "%.0f writes while nothing happened", m.steady.changed())
	check(m.early == 0, "%d targets were changed without a reason", m.early)
	check(perScaler < 60*kb, "a scaler costs %.1f KB, over 60", perScaler/kb)
	check(m.reports.within(interval) == m.bursting, "%d of %d scalers that burst had grown and said so within %s", m.reports.within(interval), m.bursting, interval)
	check(len(m.reactions) == stepping && m.reactions.at(0.99) <= interval+reactionSlack, "%d of %d grew after a step of their demand, at p99 within %s, not %s",
		len(m.reactions), stepping, round(m.reactions.at(0.99)), interval+reactionSlack)
	check(f.within(f.first) <= leaseDuration+failoverSlack, "the next leader's first plan came within %s, not %s", round(f.within(f.first)), leaseDuration+failoverSlack)
	check(f.p99 <= interval.Seconds(), "the next leader planned 99 %% of all within %gs, not one interval, %s", f.p99, interval)
	return errors.Join(errs...)
}

const (
	// reactionSlack is how long after the interval a step of the demand may be unanswered.
	reactionSlack = time.Second
	// leaseDuration is a decider's default, and failoverSlack what the next leader may take beyond.
	leaseDuration = 15 * time.Second
	failoverSlack = 5 * time.Second
)

func (c *cost) print(w io.Writer) {
	fmt.Fprintf(w, "  CPU                %.2f cores (user and system)\n", c.cores)
	fmt.Fprintf(w, "  time of a pass     50 %% %s, 99 %% %s; 99 %% waited %s for a worker\n", upTo(c.p50), upTo(c.p99), upTo(c.waited))
	fmt.Fprintf(w, "  API writes         %.2f a second, and %.2f renewals of the Lease\n", c.changed()/c.seconds, c.writes["PUT"]/c.seconds)
}

// upTo tells an upper bound, in seconds; beyond the last that a histogram has there is none.
func upTo(s float64) string {
	if math.IsInf(s, 1) {
		return "longer than is counted"
	}
	return "up to " + time.Duration(s*float64(time.Second)).String()
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
