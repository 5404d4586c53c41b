package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

// assetsVariable names the folder with etcd and kube-apiserver, as the
// envtest tools set it.
const assetsVariable = "KUBEBUILDER_ASSETS"

// Options are the flags of "devcluster up".
type Options struct {
	DataDir    string
	Keep       bool
	Kubeconfig string
	ReadyFile  string
	LogDir     string
	Block      int
	Verbosity  int
	UseAssets  bool
}

// NewUpCommand returns "devcluster up".
func NewUpCommand() *cobra.Command {
	var o Options
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a cluster until SIGINT or SIGTERM",
		Long: `Run a cluster until SIGINT or SIGTERM; a second signal kills it at once.

Each cluster lives in a loopback block 127.K.0.0/16 of its own: the servers on
127.K.0.1, Services in 127.K.64.0/18, Pods (which others play) in
127.K.128.0/17. There are no nodes.`,
		Args: cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error {
			return o.Validate()
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			stop, kill, release := signalContexts()
			defer release()
			return Run(stop, kill, cmd.OutOrStdout(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.DataDir, "data-dir", "", "directory for the data, kept at the end (default: a temporary one, removed at the end)")
	f.BoolVar(&o.Keep, "keep", false, "keep the temporary data directory, to look at its logs")
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "where to write the administrator's kubeconfig (default: in the data directory)")
	f.StringVar(&o.ReadyFile, "ready-file", "", "JSON file to write when everything is ready; removed at the end")
	f.StringVar(&o.LogDir, "log-dir", "", "directory for the components' logs (default: in the data directory)")
	f.IntVar(&o.Block, "block", 0, "the K of the loopback block 127.K.0.0/16 (default: the first free one from 10)")
	f.IntVar(&o.Verbosity, "verbosity", 0, "log level of the components, 0 to 10")
	f.BoolVar(&o.UseAssets, "use-assets", false, "run etcd and kube-apiserver from $"+assetsVariable+" in place of those in this binary")
	return cmd
}

// Validate returns all that is wrong with the options.
func (o Options) Validate() error {
	var errs []error
	if o.Block != 0 && (o.Block < 1 || o.Block > lastBlock) {
		errs = append(errs, fmt.Errorf("--block: %d is not between 1 and %d", o.Block, lastBlock))
	}
	if o.Verbosity < 0 || o.Verbosity > 10 {
		errs = append(errs, fmt.Errorf("--verbosity: %d is not between 0 and 10", o.Verbosity))
	}
	if o.Kubeconfig != "" {
		if err := checkReplaceable(o.Kubeconfig); err != nil {
			errs = append(errs, fmt.Errorf("--kubeconfig: %w", err))
		}
	}
	if o.UseAssets {
		errs = append(errs, validateAssets(os.Getenv(assetsVariable)))
	}
	return errors.Join(errs...)
}

func validateAssets(dir string) error {
	if dir == "" {
		return fmt.Errorf("--use-assets: %s is not set; it must name the folder with etcd and kube-apiserver", assetsVariable)
	}
	var errs []error
	for _, name := range []string{"etcd", "kube-apiserver"} {
		info, err := os.Stat(filepath.Join(dir, name)) //nolint:gosec // the folder is the choice of the person who starts the program
		if err == nil && info.Mode()&0o111 == 0 {
			err = fmt.Errorf("%s is not executable", filepath.Join(dir, name))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--use-assets: %s is incomplete: %w", assetsVariable, err))
		}
	}
	return errors.Join(errs...)
}

// signalContexts return one context that ends with the first signal and one
// that ends with the second.
func signalContexts() (stop, kill context.Context, release func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	// A reader of the output that goes away first ("up | tee log" and Ctrl-C)
	// must not end the process before it has cleaned up.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	stop, stopNow := context.WithCancel(context.Background())
	kill, killNow := context.WithCancel(context.Background())
	go func() {
		<-signals
		stopNow()
		<-signals
		killNow()
	}()
	return stop, kill, func() { stopNow(); killNow() }
}
