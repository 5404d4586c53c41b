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

// names of what is judged: whoever reads has the time that the same read takes besides.
var names = map[bool]string{false: "all without a read", true: "all with one read"}

// of the cases that read, or of those that do not.
func (m measured) of(cases []one, reads bool) (all []answer) {
	for i, c := range cases {
		if c.reads == reads {
			all = append(all, m.answers[i]...)
		}
	}
	return all
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
	read := row("for comparison, a read of the API server", m.compared)
	row("all", slices.Concat(m.answers...))
	for _, reads := range []bool{false, true} {
		limit := o.limit
		if reads {
			limit += read
		}
		if p99 := row(names[reads], m.of(cases, reads)); p99 > limit {
			errs = append(errs, fmt.Errorf("%s: 99 %% of the answers took up to %s, over %s", names[reads], p99, limit))
		}
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
