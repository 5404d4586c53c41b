package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAssetsReplaceWhatIsLinkedIn builds etcd and kube-apiserver as programs
// of their own, from the same modules.
func TestAssetsReplaceWhatIsLinkedIn(t *testing.T) {
	assets := t.TempDir()
	for name, pkg := range map[string]string{
		"etcd":           "go.etcd.io/etcd/server/v3",
		"kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
	} {
		build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(assets, name), pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		output, err := build.CombinedOutput()
		require.NoError(t, err, string(output))
	}
	t.Setenv("KUBEBUILDER_ASSETS", assets)
	i := start(t, t.TempDir(), "--use-assets")
	require.NoError(t, i.waitReady())
	require.Contains(t, i.kubectl(t, "", "get", "serviceaccounts", "-A"), "default")
	children := i.children(t)
	require.Len(t, children, 3)
	executable, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", children[0]))
	require.NoError(t, err)
	require.Equal(t, assets, filepath.Dir(executable))
	require.NoError(t, i.terminate())
	requireGone(t, children)
	require.NoError(t, portsFree(i.Block))
}
