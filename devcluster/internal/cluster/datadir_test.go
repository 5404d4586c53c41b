package cluster

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTemporaryDataOfKilledClustersIsSwept(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	leftover := filepath.Join(os.TempDir(), "devcluster-data-1")
	beingMade := filepath.Join(os.TempDir(), "devcluster-data-2")
	require.NoError(t, os.Mkdir(leftover, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(leftover, "lock"), nil, 0o600))
	require.NoError(t, os.Mkdir(beingMade, 0o700))

	running, err := openDataDir("")
	require.NoError(t, err)
	require.NoDirExists(t, leftover)
	require.DirExists(t, beingMade)

	second, err := openDataDir("")
	require.NoError(t, err)
	require.DirExists(t, running.path)
	require.NoError(t, second.close(true))
	require.NoDirExists(t, second.path)
	require.NoError(t, running.close(false))
	require.DirExists(t, running.path)
}

func TestADataDirectoryServesOneClusterAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "data")
	first, err := openDataDir(path)
	require.NoError(t, err)
	_, err = openDataDir(path)
	require.ErrorIs(t, err, errLocked)
	require.ErrorContains(t, err, path)
	require.NoError(t, first.close(false))
	again, err := openDataDir(path)
	require.NoError(t, err)
	require.NoError(t, again.close(false))
}

func TestTheBlockIsRememberedWithTheData(t *testing.T) {
	d, err := openDataDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.close(false)) })
	block, err := d.block()
	require.NoError(t, err)
	require.Zero(t, block)
	require.NoError(t, d.setBlock(17))
	block, err = d.block()
	require.NoError(t, err)
	require.Equal(t, Block(17), block)

	require.NoError(t, os.WriteFile(d.join("block"), []byte("x"), 0o600))
	_, err = d.block()
	require.ErrorContains(t, err, d.join("block"))
}

func TestOnlyOwnKubeconfigsAreReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config")
	require.NoError(t, checkReplaceable(path))
	p, err := createPKI(filepath.Join(dir, "pki"), 10)
	require.NoError(t, err)
	require.NoError(t, writeKubeconfig(path, 10, p, adminName))
	require.NoError(t, checkReplaceable(path))
	require.NoError(t, os.WriteFile(path, []byte("apiVersion: v1\n"), 0o600))
	require.ErrorContains(t, checkReplaceable(path), "--kubeconfig")
}

func TestAFailedWriteLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "taken")
	require.NoError(t, os.MkdirAll(filepath.Join(path, "child"), 0o700))
	require.ErrorContains(t, writeFile(path, []byte("text"), 0o600), path)
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1)
}
