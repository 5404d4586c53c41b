package ownership

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"gpustack.ai/model-deployment-scaler/dev/controlplane"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/kube"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// owner plays the decider for one deployment, with the decider's own writes.
type owner struct {
	t        *testing.T
	w        *world
	name     string
	binding  fence.Binding
	sequence int64
	writer   *kube.Writer
}

// held is a Lease that is never lost.
type held struct{}

func (held) Write(ctx context.Context) (context.Context, context.CancelFunc, error) {
	ctx, cancel := context.WithCancel(ctx)
	return ctx, cancel, nil
}

// bind makes a scaler and binds the deployment to it.
func (w *world) bind(t *testing.T, name string) *owner {
	t.Helper()
	config := rest.CopyConfig(w.cluster.Config(t))
	config.Impersonate = users[Decider]
	client, err := kube.NewClient(t.Context(), config, "")
	require.NoError(t, err)
	uid, transitions, _ := strings.Cut(w.epoch, "-")
	require.Equal(t, "2", transitions)
	o := &owner{t: t, w: w, name: name, writer: kube.NewWriter(client, held{}, fence.Epoch{LeaseUID: uid, Transitions: 2}),
		binding: fence.Binding{ScalerName: name, ScalerUID: w.scaler(t, name), Term: 1}}
	_, err = o.writer.Commit(t.Context(), o.live(), kube.Change{Bind: &o.binding})
	require.NoError(t, err)
	return o
}

// commit moves the counts to these.
func (o *owner) commit(kind fence.CommitKind, prefill, decode int32) {
	o.t.Helper()
	o.sequence++
	id := fence.DecisionID{Epoch: o.w.epoch, Sequence: o.sequence, Kind: kind}
	_, err := o.writer.Commit(o.t.Context(), o.live(), kube.Change{Decision: &fence.Decision{
		DecisionID: id.String(), Term: o.binding.Term, Vector: map[string]int32{"prefill": prefill, "decode": decode},
	}})
	require.NoError(o.t, err)
}

func (o *owner) live() target.Deployment {
	o.t.Helper()
	d, err := target.Parse(o.w.get(o.t, o.name))
	require.NoError(o.t, err)
	return d
}

// keeps runs something that must leave counts and annotations as they are.
func (o *owner) keeps(what string, do func()) {
	o.t.Helper()
	before := o.live()
	do()
	after := o.live()
	require.Equal(o.t, before.Counts(), after.Counts(), what)
	for _, key := range []string{bindingKey, decisionKey} {
		require.Equal(o.t, before.Annotations[key], after.Annotations[key], what)
	}
}

// refuses runs a write that must be refused as the owner's business, and change nothing at all.
func (o *owner) refuses(do func() error, words ...string) {
	o.t.Helper()
	before := o.w.get(o.t, o.name)
	err := do()
	require.Error(o.t, err)
	for _, word := range append(words, "ModelDeploymentScaler "+o.name, "GitOps") {
		require.ErrorContains(o.t, err, word)
	}
	require.Equal(o.t, before.GetResourceVersion(), o.w.get(o.t, o.name).GetResourceVersion(), "nothing was written")
}

func (w *world) get(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	object, err := w.deployments(User, "v1").Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return object
}

// sync applies server-side as GitOps controllers do: a dry run first, and only then the write. Without force, a conflict is an
// error.
func (w *world) sync(t *testing.T, manager string, object *unstructured.Unstructured, force bool) error {
	t.Helper()
	_, version, _ := strings.Cut(object.GetAPIVersion(), "/")
	client := w.deployments(GitOps, version)
	for _, dryRun := range [][]string{{metav1.DryRunAll}, nil} {
		if _, err := client.Apply(t.Context(), object.GetName(), object, metav1.ApplyOptions{FieldManager: manager, Force: force, DryRun: dryRun}); err != nil {
			return err
		}
	}
	return nil
}

// kubectl runs the real one, as the GitOps controller, on a manifest.
func (w *world) kubectl(t *testing.T, object *unstructured.Unstructured, args ...string) error {
	t.Helper()
	devcluster, err := controlplane.Binary("devcluster")
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), devcluster, append([]string{"kubectl", "--kubeconfig", w.cluster.Kubeconfig,
		"--namespace", namespace, "--as", users[GitOps].UserName}, append(args, "-f", "-")...)...)
	cmd.Stdin = strings.NewReader(string(encode(t, object.Object)))
	return outcome(cmd)
}

// outcome of a command; the error has what it printed.
func outcome(cmd *exec.Cmd) error {
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}
