package main

import (
	"errors"
	"fmt"
	"io"

	"gpustack.ai/model-deployment-scaler/dev/measure"
)

// report prints the figures, and is an error when the sampler cost too much or missed a pass.
func report(w io.Writer, o options, m *measured, seen *observations) error {
	seen.mu.Lock()
	defer seen.mu.Unlock()
	expected := int(o.measure / o.interval)
	var late, incomplete, all int
	for _, p := range seen.rolesOf {
		all += p.all
		incomplete += p.all - p.complete
		if p.all < expected-1 { // one may be under way at either end
			late++
		}
	}
	const mb = 1 << 20
	fmt.Fprintf(w, "machine              %s\n", measure.Machine())
	fmt.Fprintf(w, "CPU                  %.2f cores (user and system)\n", m.cores)
	fmt.Fprintf(w, "memory               %.0f MB resident at most, %.0f MB of it Go heap\n", m.maxRSS/mb, m.maxHeap/mb)
	fmt.Fprintf(w, "goroutines           %.0f at most\n", m.goroutines)
	for result, rate := range m.scrapes {
		fmt.Fprintf(w, "scrapes              %.0f a second %s\n", rate, result)
	}
	fmt.Fprintf(w, "lateness of passes   99 %% under %gs\n", m.late)
	fmt.Fprintf(w, "observations         %d of %d roles, %d of them incomplete\n", all, len(seen.rolesOf), incomplete)
	var errs []error
	check := func(right bool, format string, a ...any) {
		if !right {
			errs = append(errs, fmt.Errorf(format, a...))
		}
	}
	check(m.cores <= o.maxCores, "the sampler took %.2f cores, over %.2f", m.cores, o.maxCores)
	check(m.maxRSS/mb <= o.maxMB, "the sampler took %.0f MB, over %.0f", m.maxRSS/mb, o.maxMB)
	check(len(seen.rolesOf) == roles(o), "observations of %d roles came, not of %d", len(seen.rolesOf), roles(o))
	check(late == 0, "%d roles were not observed every interval", late)
	check(incomplete == 0, "%d observations lack Pods that answer, or their rates", incomplete)
	return errors.Join(errs...)
}
