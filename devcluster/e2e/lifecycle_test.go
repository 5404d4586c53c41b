package e2e

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func requirePortsFree(t *testing.T, block string) {
	t.Helper()
	for _, port := range []string{"6440", "6443", "2379", "2380", "10257"} {
		listener, err := net.Listen("tcp", block+".0.1:"+port)
		require.NoError(t, err)
		require.NoError(t, listener.Close())
	}
}

func TestKeptDataSurvivesARestart(t *testing.T) {
	data, dir := filepath.Join(t.TempDir(), "data"), t.TempDir()
	kubeconfig := filepath.Join(dir, "config")
	args := []string{"--data-dir", data, "--kubeconfig", kubeconfig}
	first := start(t, dir, args...)
	require.NoError(t, first.waitReady())
	require.Equal(t, kubeconfig, first.Kubeconfig)
	first.kubectl(t, "", "create", "namespace", "kept")
	first.kubectl(t, "", "create", "configmap", "greeting", "-n", "kept", "--from-literal=text=hello")
	clusterIP := first.kubectl(t, "", "get", "service", "kubernetes", "-o", "jsonpath={.spec.clusterIP}")
	token := first.kubectl(t, "", "create", "token", "default")
	children := first.children(t)
	require.Len(t, children, 2)

	require.NoError(t, first.terminate())
	requireGone(t, children)
	requirePortsFree(t, first.Block)
	require.NoFileExists(t, first.readyFile)

	second := start(t, dir, args...)
	require.NoError(t, second.waitReady())
	require.Equal(t, first.Block, second.Block)
	require.Equal(t, "hello", second.kubectl(t, "", "get", "configmap", "greeting", "-n", "kept", "-o", "jsonpath={.data.text}"))
	require.Equal(t, clusterIP, second.kubectl(t, "", "get", "service", "kubernetes", "-o", "jsonpath={.spec.clusterIP}"))
	require.Equal(t, 403, second.get(t, "/api/v1/secrets", token).status, "tokens of the first run stay valid")

	third := start(t, t.TempDir(), "--data-dir", data)
	require.Error(t, third.waitReady())
	require.Contains(t, third.output.String(), "another devcluster is using it")
}

func TestTwoInstancesStartedAtOnce(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	one, two := start(t, dirs[0]), start(t, dirs[1])
	require.NoError(t, one.waitReady())
	require.NoError(t, two.waitReady())
	require.NotEqual(t, one.Block, two.Block)
	require.NotEqual(t, shared.Block, one.Block)
	one.kubectl(t, "", "create", "namespace", "only-here")
	output, err := two.kubectlCommand("", "get", "namespace", "only-here").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(output), "NotFound")

	t.Run("an orderly stop leaves no process, port or file", func(t *testing.T) {
		children := one.children(t)
		require.Len(t, children, 2)
		require.NoError(t, one.terminate())
		requireGone(t, children)
		requirePortsFree(t, one.Block)
		files, err := os.ReadDir(dirs[0])
		require.NoError(t, err)
		require.Empty(t, files)
	})
	t.Run("a killed instance leaves no process, and its data goes with the next start", func(t *testing.T) {
		children := two.children(t)
		require.Len(t, children, 2)
		require.Error(t, two.signal(syscall.SIGKILL))
		requireGone(t, children)
		left, err := filepath.Glob(filepath.Join(dirs[1], "devcluster-data-*"))
		require.NoError(t, err)
		require.Len(t, left, 1)

		next := start(t, dirs[1], "--block", two.Block[len("127."):])
		require.Eventually(t, func() bool {
			_, err := os.Stat(left[0])
			return os.IsNotExist(err)
		}, patience, tick)
		require.NoError(t, next.signal(syscall.SIGINT), "a stop while starting is no failure")
		requirePortsFree(t, two.Block)
	})
}

func TestAComponentThatDiesEndsTheCluster(t *testing.T) {
	dir := t.TempDir()
	i := start(t, dir)
	require.NoError(t, i.waitReady())
	children := i.children(t)
	require.NoError(t, syscall.Kill(children[0], syscall.SIGKILL))
	<-i.done
	require.Error(t, i.err)
	require.Contains(t, i.output.String(), "failed: signal: killed")
	require.Contains(t, i.output.String(), "way out: ")
	requireGone(t, children)
	requirePortsFree(t, i.Block)
}
