package cli

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write what comes into the golden files")

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestScenarioCommandsPrintWhatPeopleNeed(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		code int
	}{
		"test-holds.txt":       {[]string{"test", "testdata/queue.yaml"}, 0},
		"test-verbose.txt":     {[]string{"test", "-v", "testdata/queue.yaml"}, 0},
		"test-fails.txt":       {[]string{"test", "testdata/queue.yaml", "testdata/wrong.yaml"}, 1},
		"test-fails.json":      {[]string{"test", "-o", "json", "testdata/wrong.yaml"}, 1},
		"test-unreadable.txt":  {[]string{"test", "testdata/unreadable.yaml", "testdata/wrong.yaml", "testdata/none.yaml"}, 2},
		"test-unreadable.json": {[]string{"test", "-o", "json", "testdata/unreadable.yaml"}, 2},
		"replay.txt":           {[]string{"replay", "testdata/queue.yaml"}, 0},
		"replay.json":          {[]string{"replay", "-o", "json", "testdata/queue.yaml"}, 0},
		"test-help.txt":        {[]string{"test", "--help"}, 0},
		"replay-help.txt":      {[]string{"replay", "--help"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := run(t, tt.args...)
			require.Equal(t, tt.code, code, errs)
			golden(t, name, out)
		})
	}
}

func TestAFolderStandsForItsScenarioFiles(t *testing.T) {
	dir := t.TempDir()
	code, _, errs := run(t, "test", dir)
	require.Equal(t, 2, code)
	require.Equal(t, "kubectl mds: looking for scenario files: no .yaml file in "+dir+" is one\n", errs)

	text, err := os.ReadFile("testdata/queue.yaml")
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "below"), 0o700))
	for _, name := range []string{"b.yaml", "below/a.yaml", "notes.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "scaler.yaml"), []byte("kind: ModelDeploymentScaler\n"), 0o600))
	code, out, errs := run(t, "test", dir, "testdata/queue.yaml")
	require.Zero(t, code, errs)
	require.Contains(t, out, "3 files, ")
}

func TestScenarioCommandsSayOnStandardErrorWhatFailed(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		code int
		want string
	}{
		"an expectation":           {[]string{"test", "testdata/wrong.yaml"}, 1, "kubectl mds: 5 of 6 expectations failed\n"},
		"a file with mistakes":     {[]string{"test", "testdata/unreadable.yaml"}, 2, "kubectl mds: 1 of 1 files could not be read or played\n"},
		"a file that is not there": {[]string{"replay", "testdata/none.yaml"}, 2, "kubectl mds: open testdata/none.yaml: no such file or directory\n"},
		"no file":                  {[]string{"test"}, 2, "kubectl mds: requires at least 1 arg(s), only received 0\nRun 'kubectl mds test --help' for what there is.\n"},
		"two files to replay":      {[]string{"replay", "a", "b"}, 2, "kubectl mds: accepts 1 arg(s), received 2\nRun 'kubectl mds replay --help' for what there is.\n"},
		"an output of test":        {[]string{"test", "-o", "table", "a"}, 2, "kubectl mds: --output: \"table\" is not one of text, json\nRun 'kubectl mds test --help' for what there is.\n"},
		"an output of replay":      {[]string{"replay", "-o", "text", "a"}, 2, "kubectl mds: --output: \"text\" is not one of table, json\nRun 'kubectl mds replay --help' for what there is.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, errs := run(t, tt.args...)
			require.Equal(t, tt.code, code)
			require.Equal(t, tt.want, errs)
		})
	}
}

// Every policy test in the documentation holds, and is about the scaler beside it.
func TestTheExamplesHold(t *testing.T) {
	manifests, err := filepath.Glob("../../docs/examples/*/scaler.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, manifests)
	for _, manifest := range manifests {
		var scaler struct{ Spec json.RawMessage }
		read(t, manifest, &scaler)
		files, err := filepath.Glob(filepath.Join(filepath.Dir(manifest), "*.yaml"))
		require.NoError(t, err)
		require.Greater(t, len(files), 1, "a manifest without a policy test")
		for _, file := range files {
			if file == manifest {
				continue
			}
			var policy struct{ Scaler json.RawMessage }
			read(t, file, &policy)
			policySpec := map[string]any{}
			require.NoError(t, json.Unmarshal(policy.Scaler, &policySpec))
			policySpec["mode"] = "Active" // as is the default of a scenario
			want, err := json.Marshal(policySpec)
			require.NoError(t, err)
			require.JSONEq(t, string(want), string(scaler.Spec), "%s tests another scaler than %s", file, manifest)
			code, out, _ := run(t, "test", file)
			require.Zero(t, code, out)
		}
	}
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(data, into))
}
