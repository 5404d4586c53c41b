package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"gpustack.ai/model-deployment-scaler/dev/harness"
)

func main() {
	var names []string
	var counts map[string]int
	pflag.StringSliceVar(&names, "faults", nil, "Faults to inject. Default: all.\n"+listing())
	pflag.StringToIntVar(&counts, "counts", nil, "How often, fault=number,...; the others as listed.")
	pflag.Parse()
	chosen, err := choose(names, counts)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	klog.SetLogger(klog.Logger{})  // that watches break is no news
	signal.Ignore(syscall.SIGPIPE) // connections break all the time, and a reader of the output that went is no reason to leave processes behind
	// Signals are never given back: a second Ctrl-C must not cut the orderly end short.
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, func() { fmt.Fprintln(os.Stderr, "\nStopping everything; this takes a few seconds.") })
	os.Exit(code(ctx, run(ctx, chosen)))
}

// code of the process; what went wrong is said.
func code(ctx context.Context, err error) int {
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil && !errors.Is(err, errBroken) && !errors.Is(err, harness.ErrUnclean):
		return 130
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// choose the faults by name, in the order of the list.
func choose(names []string, counts map[string]int) (chosen []fault, err error) {
	if len(names) == 0 {
		for _, f := range faults {
			names = append(names, f.name)
		}
	}
	for _, name := range append(names, slices.Collect(maps.Keys(counts))...) {
		if !slices.ContainsFunc(faults, func(f fault) bool { return f.name == name }) {
			return nil, fmt.Errorf("there is no fault %q; there are %s", name, listing())
		}
	}
	for _, f := range faults {
		if n, ok := counts[f.name]; ok {
			f.count = n
		}
		if slices.Contains(names, f.name) && f.count > 0 {
			chosen = append(chosen, f)
		}
	}
	return chosen, nil
}

func listing() string {
	var b strings.Builder
	for _, f := range faults {
		fmt.Fprintf(&b, "\n%s (%d): %s", f.name, f.count, f.what)
	}
	return b.String()
}
