package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUpRefuses(t *testing.T) {
	block, address := takeEtcdPort(t)
	dir := t.TempDir()
	precious := filepath.Join(dir, "config")
	require.NoError(t, os.WriteFile(precious, []byte("apiVersion: v1\n"), 0o600))
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))

	for name, test := range map[string]struct {
		args []string
		says []string
	}{
		"a block with a taken port, naming it":        {[]string{"--block=" + block}, []string{address, "way out: ", "--block"}},
		"to replace somebody's kubeconfig":            {[]string{"--kubeconfig=" + precious}, []string{precious, "not written by devcluster"}},
		"assets when the variable is unset":           {[]string{"--use-assets"}, []string{"KUBEBUILDER_ASSETS is not set"}},
		"wrong numbers, all at once":                  {[]string{"--block=255", "--verbosity=11"}, []string{"--block", "--verbosity"}},
		"a data directory that is a file, saying why": {[]string{"--data-dir=" + file}, []string{file, "way out: "}},
		"arguments it does not know":                  {[]string{"now"}, []string{`unknown command "now"`}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(binary, append([]string{"up"}, test.args...)...)
			cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), "KUBEBUILDER_ASSETS=")
			output, err := cmd.CombinedOutput()
			require.Error(t, err)
			for _, text := range test.says {
				require.Contains(t, string(output), text)
			}
		})
	}
}

// takeEtcdPort listens on etcd's peer port in some block from the upper end.
func takeEtcdPort(t *testing.T) (block, address string) {
	t.Helper()
	for k := 254; k > 10; k-- {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.%d.0.1:2380", k))
		if err == nil {
			t.Cleanup(func() { require.NoError(t, listener.Close()) })
			return strconv.Itoa(k), listener.Addr().String()
		}
	}
	require.FailNow(t, "the port is taken in every block")
	return "", ""
}
