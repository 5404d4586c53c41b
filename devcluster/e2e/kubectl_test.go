package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func kustomization(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"kustomization.yaml": "namePrefix: made-\nresources: [configmap.yaml]\n",
		"configmap.yaml":     "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: up}\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return dir
}

func TestKubectl(t *testing.T) {
	t.Run("renders a kustomization", func(t *testing.T) {
		require.Contains(t, shared.kubectl(t, "", "kustomize", kustomization(t)), "name: made-up")
	})
	t.Run("applies a kustomization", func(t *testing.T) {
		require.Equal(t, "configmap/made-up created\n", shared.kubectl(t, "", "apply", "-n", shared.namespace(t), "-k", kustomization(t)))
	})
	t.Run("explains fields", func(t *testing.T) {
		require.Contains(t, shared.kubectl(t, "", "explain", "pod.status.podIP"), "podIP <string>")
	})
	t.Run("has the exit codes of kubectl", func(t *testing.T) {
		var exit *exec.ExitError
		require.ErrorAs(t, shared.kubectlCommand("", "get", "configmap", "no-such").Run(), &exit)
		require.Equal(t, 1, exit.ExitCode())
		changed := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: not-there-yet, namespace: default}\n"
		require.ErrorAs(t, shared.kubectlCommand(changed, "diff", "-f", "-").Run(), &exit)
		require.Equal(t, 1, exit.ExitCode())
		require.ErrorAs(t, shared.kubectlCommand("", "no-such-command").Run(), &exit)
		require.Equal(t, 1, exit.ExitCode())
	})
	t.Run("names versions that clients can read", func(t *testing.T) {
		require.Regexp(t, `Client Version: v1\.\d+\.\d+\n(?s:.*)Server Version: v1\.\d+\.\d+\n`, shared.kubectl(t, "", "version"))
	})
	t.Run("watches", watches)
}

func watches(t *testing.T) {
	namespace := shared.namespace(t)
	cmd := shared.kubectlCommand("", "get", "configmaps", "-n", namespace, "--watch-only", "-o", "name", "--field-selector", "metadata.name=watched")
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
	})
	lines := make(chan string)
	go func() {
		for scanner := bufio.NewScanner(output); scanner.Scan(); {
			lines <- scanner.Text()
		}
		close(lines)
	}()
	shared.kubectl(t, "", "create", "configmap", "watched", "-n", namespace)
	require.Eventually(t, func() bool {
		select {
		case line := <-lines:
			return line == "configmap/watched"
		default: // the watch may have begun after the creation
			shared.kubectl(t, "", "annotate", "configmap", "watched", "-n", namespace, "seen=no")
			shared.kubectl(t, "", "annotate", "configmap", "watched", "-n", namespace, "seen-")
			return false
		}
	}, patience, tick)
}
