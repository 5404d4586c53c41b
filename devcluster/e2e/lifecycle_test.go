package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// portsFree is for the block of an instance that has ended. It claims the block, so
// that no cluster that starts beside the tests comes in between. One that has come
// before has found all ports free: else it would not keep its claim.
func portsFree(block string) error {
	claim, err := net.Listen("tcp", block+".0.1:6440")
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil
	}
	if err != nil {
		return err
	}
	defer claim.Close()
	for _, port := range []string{"6443", "2379", "2380", "10257"} {
		listener, err := net.Listen("tcp", block+".0.1:"+port)
		if err != nil {
			return err
		}
		_ = listener.Close()
	}
	return nil
}

// ownBlock is a block that an instance may leave and find free again: others
// take theirs from the lower end.
func ownBlock(t *testing.T) string {
	t.Helper()
	for k := 240; k > 200; k-- {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.%d.0.1:6440", k))
		if err == nil {
			require.NoError(t, listener.Close())
			return strconv.Itoa(k)
		}
	}
	require.FailNow(t, "every block is taken")
	return ""
}

func TestKeptDataSurvivesARestart(t *testing.T) {
	data, dir := filepath.Join(t.TempDir(), "data"), t.TempDir()
	kubeconfig := filepath.Join(dir, "config")
	args := []string{"--data-dir", data, "--kubeconfig", kubeconfig}
	first := start(t, dir, append(args, "--block", ownBlock(t))...)
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
	require.NoError(t, portsFree(first.Block))
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
		require.NoError(t, portsFree(one.Block))
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

		require.Eventually(t, func() bool { return portsFree(two.Block) == nil }, stopDeadline, tick, "threads of a killed process end one by one")
		block := ownBlock(t)
		next := start(t, dirs[1], "--block", block)
		require.Eventually(t, func() bool {
			_, err := os.Stat(left[0])
			return os.IsNotExist(err)
		}, patience, tick)
		require.NoError(t, next.signal(syscall.SIGINT), "a stop while starting is no failure")
		require.NoError(t, portsFree("127."+block))
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
	require.NoError(t, portsFree(i.Block))
}
