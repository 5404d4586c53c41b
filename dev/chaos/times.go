package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// measure is what a fault is timed by, from its strike on (world.strike).
type measure struct {
	what string
	goal time.Duration
	done func(*world) (at time.Time, over bool)
}

const (
	quickLease   = 3 * time.Second
	shippedLease = 15 * time.Second
)

// failOver lasts until another decider has planned every role on full windows: within the lease and 5 s.
func failOver(lease time.Duration) *measure {
	return &measure{"next leader plans on full windows", lease + 5*time.Second, leadsAgain}
}

var handover = &measure{"next leader plans on full windows", 3 * time.Second, leadsAgain}

func leadsAgain(w *world) (time.Time, bool) { return w.witness.ledAgain(w.struck, w.victim) }

// samplerLoss lasts until every role of the sampler was observed anew: within 15 s and an interval.
var samplerLoss = &measure{"roles observed again", 15*time.Second + interval, func(w *world) (time.Time, bool) {
	return w.witness.seenAgain(w.struck, w.lost)
}}

// reaction is not a fault's: it begins when an exposition shows a demand that needs more replicas, and lasts until the target
// says so.
var reaction = &measure{what: "count is written after demand shows", goal: interval + time.Second}

// strike notes that a leader is lost at this moment, by its identity.
func (w *world) strike(leader string) { w.struck, w.victim, w.lost = time.Now(), leader, nil }

// strikeSampler notes that a sampler is lost at this moment.
func (w *world) strikeSampler(pod string) {
	w.struck, w.victim, w.lost = time.Now(), "", w.witness.of(pod)
}

// time waits for the end of what the fault is timed by. A sampler that had nothing to observe was no loss.
func (r *result) time(ctx context.Context, w *world) error {
	if r.measure == nil || w.struck.IsZero() || r.measure == samplerLoss && len(w.lost) == 0 {
		return nil
	}
	err := w.await(ctx, r.measure.what, func() bool {
		at, over := r.measure.done(w)
		if over {
			r.took = append(r.took, at.Sub(w.struck))
		}
		return over
	})
	if err == nil {
		say("  %s after %.1f s", r.measure.what, r.took[len(r.took)-1].Seconds())
	}
	return err
}

// percentile of sorted times: the smallest that a share of them does not exceed.
func percentile(sorted []time.Duration, share float64) time.Duration {
	i := int(share*float64(len(sorted))+1-1e-9) - 1
	return sorted[min(max(0, i), len(sorted)-1)]
}

func timesTable(to io.Writer, results []*result) {
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FAULT\tTIMED UNTIL\tTIMES\tP50\tP99\tMAX\tGOAL AT P99\tOVER THE GOAL")
	var reactions []time.Duration
	for _, r := range results {
		timesRow(t, r.name, r.measure, r.took)
		reactions = append(reactions, r.reactions...)
	}
	timesRow(t, "(none)", reaction, reactions)
	_ = t.Flush() // to the terminal
}

func timesRow(t io.Writer, name string, m *measure, took []time.Duration) {
	if m == nil || len(took) == 0 {
		return
	}
	slices.SortFunc(took, cmp.Compare)
	over := 0
	for _, d := range took {
		if d > m.goal {
			over++
		}
	}
	verdict := fmt.Sprintf("%d", over)
	if percentile(took, 0.99) > m.goal {
		verdict += " (MISSED)"
	}
	fmt.Fprintf(t, "%s\t%s\t%d\t%.1f s\t%.1f s\t%.1f s\t%.0f s\t%s\n", name, m.what, len(took), percentile(took, 0.5).Seconds(),
		percentile(took, 0.99).Seconds(), took[len(took)-1].Seconds(), m.goal.Seconds(), verdict)
}
