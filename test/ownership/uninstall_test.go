package ownership

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gpustack.ai/model-deployment-scaler/dev/controlplane"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/kube"
)

// U-M01. No decider runs here: it was uninstalled before its scalers. The commands are those of manifests/README.md.
func uninstalled(t *testing.T, w *world, p page) {
	name := "uninstalled"
	require.NoError(t, w.sync(t, managers[0], named(p.manifest, name), true))
	o := w.bind(t, name)
	o.commit(fence.CommitUp, 3, 2)
	_, err := w.scalers().Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":["`+kube.Finalizer+`"]}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.NoError(t, w.scalers().Delete(t.Context(), name, metav1.DeleteOptions{}))
	o.refuses(func() error { return w.sync(t, managers[0], named(p.manifest, name, 4, 4), true) }, "if it is gone already, remove the annotation")

	commands := recovery(t)
	require.Len(t, commands, 2)
	require.ErrorContains(t, w.run(t, commands[1], name), "is still there", "the scaler that hangs owns it still")
	require.NoError(t, w.run(t, commands[0], name))
	o.refuses(func() error { return w.sync(t, managers[0], named(p.manifest, name, 4, 4), true) }, "if it is gone already, remove the annotation")
	require.NoError(t, w.run(t, commands[1], name))
	require.Equal(t, map[string]int32{"prefill": 3, "decode": 2}, o.live().Counts(), "it serves on with the counts that it has")
	require.NoError(t, w.sync(t, managers[0], named(p.manifest, name, 4, 4), true), "counts are everybody's again")
}

// recovery is what the manual says to do by hand, without "kubectl".
func recovery(t *testing.T) (commands []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "manifests", "README.md"))
	require.NoError(t, err)
	for line := range strings.SplitSeq(string(text), "\n") {
		if command, found := strings.CutPrefix(line, "kubectl "); found && strings.Contains(command, " NAME ") {
			commands = append(commands, command)
		}
	}
	return commands
}

// run runs a command of the manual as a user. None of its words has a space inside its quotes.
func (w *world) run(t *testing.T, command, name string) error {
	t.Helper()
	devcluster, err := controlplane.Binary("devcluster")
	require.NoError(t, err)
	words := strings.Fields(strings.NewReplacer("'", "", "NAME", name).Replace(command))
	cmd := exec.CommandContext(t.Context(), devcluster, append([]string{"kubectl", "--kubeconfig", w.cluster.Kubeconfig,
		"--namespace", namespace, "--as", users[User].UserName}, words...)...)
	return outcome(cmd)
}
