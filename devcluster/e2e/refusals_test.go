package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUpRefuses(t *testing.T) {
	listener, err := net.Listen("tcp", "127.253.0.1:2380")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	dir := t.TempDir()
	precious := filepath.Join(dir, "config")
	require.NoError(t, os.WriteFile(precious, []byte("apiVersion: v1\n"), 0o600))
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))

	for name, test := range map[string]struct {
		args []string
		says []string
	}{
		"a block with a taken port, naming it":        {[]string{"--block=253"}, []string{"127.253.0.1:2380", "way out: ", "--block"}},
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
