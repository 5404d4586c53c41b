package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"gpustack.ai/model-deployment-scaler/internal/process"
)

const name = "kubectl mds"

// usageError is a mistake in the arguments.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Main runs one command and returns its exit code: 0, 1 on an error, 2 on wrong usage or a scenario file that cannot be played.
func Main(args []string, out, errs io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errs)
	used, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return 0
	case errors.As(err, new(usageError)):
		fmt.Fprintf(errs, "%s: %v\nRun '%s --help' for what there is.\n", name, err, used.CommandPath())
		return 2
	case errors.As(err, new(unreadableError)):
		fmt.Fprintf(errs, "%s: %v\n", name, err)
		return 2
	default:
		fmt.Fprintf(errs, "%s: %v\n", name, err)
		return 1
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use: "kubectl-mds", Short: "Explain what the model deployment scaler sees and does.", Version: process.Version(),
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: name},
		SilenceErrors: true, SilenceUsage: true, CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Args: usage(cobra.NoArgs), RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddGroup(&cobra.Group{ID: "signals", Title: "Engine signals:"}, &cobra.Group{ID: "live", Title: "Live:"}, &cobra.Group{ID: "policies", Title: "Policies:"},
		&cobra.Group{ID: "gitops", Title: "GitOps:"})
	root.AddCommand(newInspect(), newWatch(), newTest(), newReplay(), newValidate(), newGitOps())
	return root
}

// usage makes what args reject a usage error.
func usage(args cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if err := args(cmd, given); err != nil {
			return usageError{err}
		}
		return nil
	}
}
