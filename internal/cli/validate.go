package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"gpustack.ai/model-deployment-scaler/internal/manifest"
)

func newValidate() *cobra.Command {
	o := &validateOptions{namespace: "default", output: "text"}
	cmd := &cobra.Command{
		Use:     "validate -f FILE...",
		GroupID: "policies",
		Short:   "Judge scalers in files as the cluster would, before they are applied.",
		Long: `Read manifests and say of each ModelDeploymentScaler whether the cluster would accept it, in the very sentences that it would
answer with: the schema and the rules of the CustomResourceDefinition, then the webhook's checks, with the defaults filled
in as they would be stored. No cluster is needed, so it fits a pre-commit hook and a CI job.

Other objects in the files are passed over, but a ModelDeployment of the name and namespace that a scaler's targetRef says
is its target: then the scaler's roles, their kinds and capacities, and the length of names are checked against it as well.
Without it they are not, as in a cluster where the target does not exist yet.

A directory is read with all below it (.yaml, .yml, .json), "-" is the standard input, a file may hold several documents and
lists. An unknown field is an error, as kubectl's --validate=strict has it. What only a cluster can tell is not checked:
that targetRef is not changed, and who owns the target.

Each finding is a line FILE:LINE: OBJECT: FIELD: SENTENCE. Warnings go to the standard error output.
Exit code: 0 when all scalers are valid, 1 when one is not, 2 when a file cannot be read.`,
		Example: `  kubectl mds validate -f scaler.yaml
  kubectl mds validate -f policies/ -f deployment.yaml -n demo
  kustomize build overlays/prod | kubectl mds validate -f - -o json

  # .pre-commit-config.yaml
  - repo: local
    hooks:
      - {id: scalers, name: scalers, language: system, entry: kubectl mds validate -f, files: ^deploy/.*\.yaml$}`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), append(o.files, args...), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.files, "filename", "f", nil, "File, directory, or - for the standard input; repeated, or followed by more.")
	f.StringVarP(&o.namespace, "namespace", "n", o.namespace, "Namespace of objects that name none.")
	f.StringVarP(&o.output, "output", "o", o.output, "Output: text or json.")
	return cmd
}

// validateOptions are the flags of validate.
type validateOptions struct {
	files             []string
	namespace, output string
}

func (o *validateOptions) run(ctx context.Context, paths []string, in io.Reader, out, errs io.Writer) error {
	if o.output != "text" && o.output != "json" {
		return usageError{fmt.Errorf("--output: %q is not one of text, json", o.output)}
	}
	if len(paths) == 0 {
		return usageError{errors.New("nothing to validate: name files with -f")}
	}
	found, failures := manifest.Read(paths, in)
	report, err := judgeAll(ctx, found, o.namespace)
	if err != nil {
		return err
	}
	for _, failure := range failures {
		report.Unreadable = append(report.Unreadable, failure.Error())
	}
	if o.output == "json" {
		return errors.Join(writeJSON(out, report), report.err())
	}
	report.print(out, errs)
	return report.err()
}
