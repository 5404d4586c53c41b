package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"
)

// measured is what came of it.
type measured struct {
	answers  [][]answer // by case
	compared []answer   // of the API server alone
	cores    float64    // that the webhook took
}

// report prints the figures, and is an error when answers took too long or were wrong.
func report(w io.Writer, o options, cases []one, m measured) error {
	var errs []error
	fmt.Fprintf(w, "machine   %s/%s, %d CPUs, %s\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
	fmt.Fprintf(w, "webhook   %.2f cores (user and system) of %d\n", m.cores, o.cores)
	fmt.Fprintf(w, "%-46s %8s %8s %8s %8s\n", "request", "answers", "50 %", "99 %", "most")
	row := func(name string, all []answer) (p99 time.Duration) {
		took := make([]time.Duration, 0, len(all))
		for _, a := range all {
			took = append(took, a.took)
		}
		slices.Sort(took)
		fmt.Fprintf(w, "%-46s %8d %8s %8s %8s\n", name, len(took), at(took, 50), at(took, 99), at(took, 100))
		return at(took, 99)
	}
	for i, c := range cases {
		row(c.name, m.answers[i])
		for _, a := range m.answers[i] {
			if a.err != nil {
				errs = append(errs, a.err)
				break // one of a kind will do
			}
		}
	}
	row("for comparison, a read of the API server", m.compared)
	if p99 := row("all", slices.Concat(m.answers...)); p99 > o.limit {
		errs = append(errs, fmt.Errorf("99 %% of the answers took up to %s, over %s", p99, o.limit))
	}
	return errors.Join(errs...)
}

// at is the smallest time within which that percentage was answered.
func at(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, (len(sorted)*percent+99)/100-1)].Round(10 * time.Microsecond)
}
