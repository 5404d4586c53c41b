package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gpustack.ai/model-deployment-scaler/internal/manifest"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// gitopsOptions are the flags of gitops.
type gitopsOptions struct {
	cluster clusterFlags
	files   []string
	output  string
}

func newGitOps() *cobra.Command {
	o := &gitopsOptions{output: "text"}
	cmd := &cobra.Command{
		Use:     "gitops NAME",
		GroupID: "gitops",
		Short:   "Print how Argo CD or Flux can own a ModelDeployment without fighting its scaler.",
		Long: `Print, for one ModelDeployment with its own role indexes, what lets a GitOps controller own everything but the replica counts
and the scaler's two annotations:

  - the hand-over, a command to run once, before counts are taken out of Git. A controller that leaves out counts which it
    still owns resets them to their default; the scaler's webhook refuses that, and syncs fail until the hand-over is done;
  - what Git and the Argo CD Application need when counts are left out of Git (the way that lets every other field of a role
    be synced; Flux needs nothing);
  - ignore rules for counts that have to stay in Git, with what they cost.

The deployment is read from the cluster, or with -f from manifests. Manifests do not tell the counts that are to be handed
over, so the hand-over is left out then. Nothing is written.`,
		Example: `  kubectl mds gitops llm-serving -n demo
  kubectl mds gitops llm-serving -f deploy/ -o json | jq -r '.pointers[]'`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args[0], cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	o.cluster.add(f)
	f.StringArrayVarP(&o.files, "filename", "f", nil, "Manifest, directory, or - for the standard input, to read instead of the cluster; repeated.")
	f.StringVarP(&o.output, "output", "o", o.output, "Output: text or json.")
	return cmd
}

func (o *gitopsOptions) run(ctx context.Context, name string, in io.Reader, out io.Writer) error {
	if o.output != "text" && o.output != "json" {
		return usageError{fmt.Errorf("--output: %q is not one of text, json", o.output)}
	}
	r, err := o.recipe(ctx, name, in)
	if err != nil {
		return err
	}
	if o.output == "json" {
		return writeJSON(out, r)
	}
	return r.print(out)
}

func (o *gitopsOptions) recipe(ctx context.Context, name string, in io.Reader) (*recipe, error) {
	if len(o.files) > 0 {
		object, err := o.manifest(name, in)
		if err != nil {
			return nil, err
		}
		d, err := target.Parse(object)
		if err != nil {
			return nil, err
		}
		return recipeOf(d, object.GetAPIVersion()), nil
	}
	object, err := o.cluster.deployment(ctx, name)
	if err != nil {
		return nil, err
	}
	d, err := target.Parse(object)
	if err != nil {
		return nil, err
	}
	r := recipeOf(d, object.GetAPIVersion())
	r.handOver(d, object.GetAPIVersion(), o.cluster.args())
	return r, nil
}

// manifest finds the deployment in the files.
func (o *gitopsOptions) manifest(name string, in io.Reader) (*unstructured.Unstructured, error) {
	found, failures := manifest.Read(o.files, in)
	if len(failures) > 0 {
		return nil, unreadableError{errors.Join(failures...)}
	}
	wanted := cmp.Or(o.cluster.namespace, "default")
	for _, m := range found {
		namespace := cmp.Or(m.Text("metadata", "namespace"), wanted)
		if m.Text("kind") == target.Kind && m.Text("metadata", "name") == name && (namespace == wanted || o.cluster.namespace == "") {
			object := &unstructured.Unstructured{Object: m.Object}
			object.SetNamespace(namespace)
			return object, nil
		}
	}
	return nil, fmt.Errorf("no %s %s in namespace %s among the %d objects that were read", target.Kind, name, wanted, len(found))
}
