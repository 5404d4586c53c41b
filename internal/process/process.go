package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// shutdownTimeout is how long Run may take to return after the first signal.
const shutdownTimeout = 10 * time.Second

// errShutdownTimeout ends a process whose Run did not return in time.
var errShutdownTimeout = fmt.Errorf("stopping: not done within %s of the signal; ended anyway", shutdownTimeout)

// FlagGroup is a titled part of --help.
type FlagGroup struct {
	Title string
	Flags *pflag.FlagSet
}

// Spec describes a binary.
type Spec struct {
	Name, Short, Long string
	// Groups of flags, in the order in which --help prints them.
	Groups []FlagGroup
	// Validate returns everything that is wrong with the flags, joined; each error names its flag.
	Validate func() error
	// Run does the work until ctx ends, then returns within ten seconds.
	Run func(ctx context.Context, p *Process) error
}

// Process is what a running binary is given.
type Process struct {
	Log      *zap.Logger
	Registry *prometheus.Registry
	Health   *Health
	Version  string
}

// Main runs the binary and returns its exit code: 0 after an orderly end, 1 on an error, 2 on wrong usage.
func Main(spec Spec) int {
	o := newOptions()
	cmd := newCommand(spec, o)
	err := cmd.Execute()
	switch {
	case err == nil:
		return 0
	case errors.As(err, new(usageError)):
		fmt.Fprintf(os.Stderr, "%s: %v\nRun '%s --help' for the flags.\n", spec.Name, err, spec.Name)
		return 2
	default:
		fmt.Fprintf(os.Stderr, "%s: %v\n", spec.Name, err)
		return 1
	}
}

func newCommand(spec Spec, o *options) *cobra.Command {
	groups := slices.Concat(spec.Groups, []FlagGroup{o.group()})
	cmd := &cobra.Command{
		Use: spec.Name, Short: spec.Short, Long: spec.Long, Version: Version(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unexpected argument %q: only flags are accepted", args[0])}
			}
			return nil
		},
		SilenceErrors: true, SilenceUsage: true, CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(spec.Validate(), o.validate()); err != nil {
				return usageError{err}
			}
			return run(cmd.Context(), spec, o)
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	cmd.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	for _, g := range groups {
		cmd.Flags().AddFlagSet(g.Flags)
	}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) { printHelp(cmd.OutOrStdout(), spec, groups) })
	return cmd
}

type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// run is the life of the process: logs, admin endpoints, the work, and the orderly end.
func run(parent context.Context, spec Spec, o *options) error {
	log, level, err := newLogger(o)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }()
	ctx, stop := signal.NotifyContext(parent, syscall.SIGTERM, os.Interrupt)
	defer stop()

	p := &Process{Log: log, Registry: newRegistry(spec.Name), Health: newHealth(), Version: Version()}
	log.Info("started", zap.String("program", spec.Name), zap.String("version", p.Version), zap.Int("pid", os.Getpid()))
	admin, err := newAdmin(ctx, o, p, level)
	if err != nil {
		return err
	}
	if err := serve(ctx, stop, spec, p, admin); err != nil {
		log.Error("stopped", zap.Error(err))
		return err
	}
	log.Info("stopped")
	return nil
}

// serve ends with the work: the admin endpoints go last, so that probes and scrapes see the shutdown.
func serve(ctx context.Context, stop func(), spec Spec, p *Process, admin *adminServer) error {
	adminCtx, closeAdmin := context.WithCancel(context.WithoutCancel(ctx))
	defer closeAdmin()
	g, workCtx := errgroup.WithContext(ctx)
	work := make(chan error, 1)
	go func() { work <- spec.Run(workCtx, p) }()
	g.Go(func() error { return admin.serve(adminCtx) })
	g.Go(func() error {
		defer closeAdmin()
		return await(workCtx, stop, work)
	})
	return g.Wait()
}

// await returns what the work returned, or errShutdownTimeout. A second signal kills: stop gives signals back to the runtime.
func await(ctx context.Context, stop func(), work <-chan error) error {
	select {
	case err := <-work:
		return orderly(ctx, err)
	case <-ctx.Done():
		stop()
	}
	select {
	case err := <-work:
		return orderly(ctx, err)
	case <-time.After(shutdownTimeout):
		return errShutdownTimeout
	}
}

// orderly: work that was told to end and says just that has not failed.
func orderly(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
