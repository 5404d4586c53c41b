package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"gpustack.ai/model-deployment-scaler/dev/invariants"
)

// errBroken says that something that must stay true did not.
var errBroken = errors.New("the system did not keep what it promises")

// fault is one way to break the system.
type fault struct {
	name, what string
	count      int
	deciders   deciders
	// inject breaks the system once, and mends what does not mend itself.
	inject func(context.Context, *world) error
	// measure is what is timed; nil: nothing.
	measure *measure
}

// result of a fault.
type result struct {
	fault
	injected, versions, commits, leaders, cohorts, floors int
	slowest                                               time.Duration
	took, reactions                                       []time.Duration
	wrong                                                 []error
}

var began = time.Now()

func say(format string, args ...any) {
	fmt.Printf("%7.1fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
}

// run all faults, those with the same deciders on one system, and print the table.
func run(ctx context.Context, chosen []fault) error {
	var results []*result
	var err error
	for _, d := range []deciders{quick, shipped, stepped} {
		var some []*result
		for _, f := range chosen {
			if f.deciders == d {
				some = append(some, &result{fault: f})
			}
		}
		if len(some) > 0 && ctx.Err() == nil {
			results = append(results, some...)
			err = errors.Join(err, runOn(ctx, d, some))
		}
	}
	table(results)
	for _, r := range results {
		if len(r.wrong) > 0 {
			err = errors.Join(err, errBroken, fmt.Errorf("%s: %w", r.name, errors.Join(r.wrong...)))
		}
	}
	return err
}

// runOn one system.
func runOn(ctx context.Context, d deciders, results []*result) (err error) {
	w, err := build(ctx, d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.end()) }()
	var seen invariants.Report
	for _, r := range results {
		say("%s, %d times: %s", r.name, r.count, r.what)
		for range r.count {
			if err := r.once(ctx, w, &seen); err != nil {
				return r.gaveUp(ctx, err)
			}
		}
	}
	return nil
}

// gaveUp: what follows on this system was not tried.
func (r *result) gaveUp(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.wrong = append(r.wrong, err)
	return fmt.Errorf("%s left a system that cannot be tried any further", r.name)
}

// once injects the fault, and checks everything. It returns an error when it makes no sense to go on.
func (r *result) once(ctx context.Context, w *world, seen *invariants.Report) error {
	if err := errors.Join(w.ready(ctx), w.stir(ctx)); err != nil {
		return errors.Join(err, r.logs(w))
	}
	if err := pause(ctx, upTo(3*time.Second)); err != nil {
		return err
	}
	r.reactions = append(r.reactions, w.reactions...)
	w.reactions, w.struck = nil, time.Time{}
	switch err := r.inject(ctx, w); {
	case errors.Is(err, errBroken):
		r.wrong = append(r.wrong, err, r.logs(w))
	case err != nil:
		return fmt.Errorf("injecting %s: %w", r.name, err)
	}
	mended := time.Now()
	if err := w.settled(ctx); err != nil && ctx.Err() == nil {
		r.wrong = append(r.wrong, err, r.logs(w))
	}
	took := time.Since(mended)
	if err := r.time(ctx, w); err != nil && ctx.Err() == nil {
		r.wrong = append(r.wrong, err, r.logs(w))
	}
	r.injected++
	r.slowest = max(r.slowest, took)
	return r.check(ctx, w, took, seen)
}

// check all versions since the start, and count what is new.
func (r *result) check(ctx context.Context, w *world, took time.Duration, seen *invariants.Report) error {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := w.history.Current(within); err != nil {
		return err
	}
	now := w.history.Check(limits)
	known := make(map[string]bool)
	for _, err := range seen.Violations {
		known[err.Error()] = true
	}
	for _, err := range now.Violations {
		if !known[err.Error()] {
			r.wrong = append(r.wrong, err)
			say("VIOLATION: %v", err)
		}
	}
	r.versions += now.Versions - seen.Versions
	r.commits += now.Commits - seen.Commits
	r.leaders += now.Leaders - seen.Leaders
	r.cohorts += now.Cohorts - seen.Cohorts
	r.floors += now.Floors - seen.Floors
	*seen = now
	say("  %s %d of %d: right again after %.1f s, %d commits so far, %d violations", r.name, r.injected, r.count, took.Seconds(), r.commits, len(r.wrong))
	return nil
}

func (r *result) logs(w *world) error { return errors.New(w.Logs(15)) }

func table(results []*result) {
	fmt.Println()
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FAULT\tDECIDERS\tINJECTED\tVERSIONS\tCOMMITS\tNEW LEADERS\tGROWTH AFTER GROWTH\tREMOVALS\tRIGHT AGAIN\tVIOLATIONS")
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%s\t%d of %d\t%d\t%d\t%d\t%d\t%d\t%.1f s\t%d\n", r.name, r.deciders, r.injected, r.count, r.versions, r.commits, r.leaders, r.cohorts, r.floors, r.slowest.Seconds(), len(r.wrong))
	}
	_ = t.Flush() // to the terminal
	fmt.Println("\nChecked in every version: bounds, ratio bands, steps, counts with their decision, terms and decisions forward,\n" +
		"one commit a plan (the status held the decision before), the writer held the Lease, no growth past what has no quota,\n" +
		"no removal from a role that could not be observed in full, nor below what was asked for within its scale-down window.\n" +
		"NEW LEADERS: that committed. GROWTH AFTER GROWTH: of which the one before had to have quota.\n" +
		"REMOVALS: that were held against what was observed before them.\n" +
		"RIGHT AGAIN: the longest from the end of an injection until counts were what the load needs.")
	fmt.Println()
	timesTable(os.Stdout, results)
}
