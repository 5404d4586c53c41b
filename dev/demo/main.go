package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	keep := flag.Bool("keep", false, "stay up after the script, until Ctrl-C, to look around")
	flag.Parse()
	// A reader of the output that went must not leave processes behind, nor may any connection that breaks end the demo.
	signal.Ignore(syscall.SIGPIPE)
	// Signals are never given back: a second Ctrl-C must not cut the orderly end short.
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, func() { fmt.Fprintln(os.Stderr, "\nStopping everything; this takes a few seconds.") })
	os.Exit(code(run(ctx, newScreen(os.Stdout), *keep)))
}

// code of the process; what went wrong is said.
func code(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errInterrupted):
		fmt.Fprintln(os.Stderr, "Stopped before the end. Nothing was left behind.")
		return 130
	}
	fmt.Fprintln(os.Stderr, "The demo failed:", err)
	return 1
}
