package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
)

// watchOptions are the flags of watch.
type watchOptions struct {
	cluster clusterFlags
	all     bool
	role    string
	output  string
	reach   reachOptions
}

func newWatch() *cobra.Command {
	o := &watchOptions{output: "table", reach: newReachOptions()}
	cmd := &cobra.Command{
		Use:     "watch [NAME]",
		GroupID: "live",
		Short:   "Follow what is observed and planned, live: of one scaler, a namespace, or all.",
		Long: `Follow the ObservationService of the decider: what was observed of each role, and what the planner made of it, as it happens.
It goes on until Ctrl-C, and through restarts and fail-overs of the decider.

On a terminal the table refreshes in place; in a pipe there is a line for each change, and with -o json a JSON object.
CURRENT is the count that was planned on, RAW what the algorithm wants, COUNT what is left of it. STAGES names each stage of
the plan at which something acted, with the count after it. AGE is that of the observation.

How the decider is reached: at --address; without it, through the API server, as kubectl port-forward does.
Who you are: the client certificate of your kubeconfig, where deciders accept those (--client-ca-file); or a service account
with --service-account, for which a token is made that is good for the decider alone; or --token-file. The token that your
kubeconfig holds for the API server is never sent. You need the right to watch modeldeploymentscalers in the namespace: the
ClusterRole view has it.`,
		Example: `  kubectl mds watch chat --service-account viewer --ca-file ca.crt
  kubectl mds watch -A -o json | jq 'select(.observation.plan.decisionId)'
  kubectl mds watch -n models --role decode --address decider.model-deployment-scaler.svc:9443 --token-file token --ca-file ca.crt

  # The authority of the decider's certificate, of an installation by the manifests:
  kubectl get secret -n model-deployment-scaler decider-tls -o jsonpath='{.data.ca\.crt}' | base64 -d > ca.crt`,
		Args: usage(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return usageError{err}
			}
			return o.run(cmd, args)
		},
	}
	f := cmd.Flags()
	o.cluster.add(f)
	f.BoolVarP(&o.all, "all-namespaces", "A", false, "Scalers of all namespaces.")
	f.StringVar(&o.role, "role", "", "This role alone.")
	f.StringVarP(&o.output, "output", "o", o.output, "Output: table or json.")
	o.reach.add(f)
	return cmd
}

// check says everything that is wrong with the flags.
func (o *watchOptions) check() error {
	var errs []error
	if o.output != "table" && o.output != "json" {
		errs = append(errs, fmt.Errorf("--output: %q is not one of table, json", o.output))
	}
	if o.all && o.cluster.namespace != "" {
		errs = append(errs, errors.New("--all-namespaces and --namespace exclude each other"))
	}
	return errors.Join(append(errs, o.reach.check())...)
}

func (o *watchOptions) run(cmd *cobra.Command, args []string) error {
	selector := &observationv1.ObservationSelector{Role: o.role}
	if len(args) > 0 {
		selector.Scaler = args[0]
	}
	r := &reacher{reachOptions: o.reach, cluster: o.cluster}
	if !o.all {
		namespace, err := o.cluster.namespaceOrDefault()
		if err != nil {
			return err
		}
		selector.Namespace, r.namespace = namespace, namespace
	}
	f := &follower{
		reach: r.reach, request: &observationv1.ObservationServiceWatchRequest{Selector: selector},
		show: o.newDisplay(cmd.OutOrStdout(), cmd.ErrOrStderr()), wait: time.After,
	}
	return f.run(cmd.Context())
}

// display shows a watch to people or programs.
type display interface {
	// begin a connection, whose snapshot replaces what is known.
	begin()
	// show a message.
	show(*observationv1.ObservationServiceWatchResponse) error
	// note what happens to the connection.
	note(string)
	// refresh what is drawn in place, a few times a second.
	refresh() error
}

func (o *watchOptions) newDisplay(out, errs io.Writer) display {
	if o.output == "json" {
		return &jsonLines{out: out, errs: errs}
	}
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return newScreen(out, o.all, func() (width, height int) {
			width, height, err := term.GetSize(int(file.Fd()))
			if err != nil || width == 0 || height == 0 { // some terminals do not know
				return 80, 24
			}
			return width, height
		})
	}
	return &plainLines{out: out, errs: errs, all: o.all}
}
