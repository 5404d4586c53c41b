package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValidateSaysWhatTheClusterWould(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		code int
	}{
		"validate-valid":   {[]string{"-f", "testdata/validate"}, 0},
		"validate-refused": {[]string{"-f", "testdata/refused.yaml", "-n", "demo"}, 1},
		"validate-help":    {[]string{"--help"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := run(t, append([]string{"validate"}, tt.args...)...)
			require.Equal(t, tt.code, code, errs)
			golden(t, name+".txt", out+"--- standard error output\n"+errs)
			if name == "validate-help" {
				return
			}
			code, out, _ = run(t, append([]string{"validate", "-o", "json"}, tt.args...)...)
			require.Equal(t, tt.code, code)
			golden(t, name+".json", out)
		})
	}
}

func TestValidateTellsWhatItCannotRead(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"a file that is not there": {[]string{"-f", "testdata/none.yaml"}, "lstat testdata/none.yaml: no such file or directory\nkubectl mds: 1 file could not be read\n"},
		"a key that is there twice, with its line": {[]string{"-f", "testdata/twice.yaml"},
			"reading testdata/twice.yaml: yaml: unmarshal errors:\n  line 6: key \"name\" already set in map\nkubectl mds: 1 file could not be read\n"},
		"nothing":   {nil, "kubectl mds: nothing to validate: name files with -f\nRun 'kubectl mds validate --help' for what there is.\n"},
		"an output": {[]string{"-o", "yaml", "-f", "x"}, "kubectl mds: --output: \"yaml\" is not one of text, json\nRun 'kubectl mds validate --help' for what there is.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, errs := run(t, append([]string{"validate"}, tt.args...)...)
			require.Equal(t, 2, code)
			require.Equal(t, tt.want, errs)
		})
	}
	t.Run("and judges the rest", func(t *testing.T) {
		code, out, _ := run(t, "validate", "-f", "testdata/none.yaml", "testdata/validate/chat.yaml")
		require.Equal(t, 2, code)
		require.Contains(t, out, "ModelDeploymentScaler default/chat is valid; checked against its target in testdata/validate/chat.yaml")
	})
}

func TestValidateReadsTheStandardInput(t *testing.T) {
	in, err := os.Open("testdata/validate/chat.yaml")
	require.NoError(t, err)
	defer in.Close()
	before := os.Stdin
	os.Stdin = in
	defer func() { os.Stdin = before }()
	code, out, _ := run(t, "validate", "-f", "-")
	require.Zero(t, code)
	require.Contains(t, out, "standard input:16: ModelDeploymentScaler default/chat is valid; checked against its target in standard input\n")
}

func TestValidateWarnsWhereThereIsNothingToJudge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.yaml")
	require.NoError(t, os.WriteFile(path, []byte("\xef\xbb\xbf# nothing\n---\n- a list\n---\nkind: {}\n"), 0o600))
	code, out, errs := run(t, "validate", path)
	require.Zero(t, code)
	require.Empty(t, out)
	require.Equal(t, "Warning: there is no ModelDeploymentScaler in these files.\n", errs)
}

// The scalers that the documentation tells people to apply are accepted.
func TestTheExamplesAreValid(t *testing.T) {
	code, out, errs := run(t, "validate", "-f", "../../docs/examples")
	require.Zero(t, code, out+errs)
	require.Contains(t, out, "is valid")
}

// Whatever shape an object has, it is judged or reported, and never a panic.
func TestObjectsOfAnyShapeAreJudged(t *testing.T) {
	const scaler = "apiVersion: worker.gpustack.ai/v1\nkind: ModelDeploymentScaler\n"
	for _, body := range []string{
		"", "metadata: []\n", "metadata: {name: [a]}\n", "metadata: {name: a, labels: 1}\n", "spec: &a [*a]\n", "spec: {roles: [null]}\n", "spec: {roles: {}}\n",
		"spec: {ratios: [1]}\n", "spec: {algorithm: {proportional: {roleTargets: [{target: {}}]}}}\n", "spec: {algorithm: []}\n", "spec: null\n",
		"spec: {targetRef: []}\n", "spec: {roles: [{name: 1, maxReplicas: 1e300}]}\n", "status: []\n", "spec: {suspend: maybe, mode: {}}\n",
	} {
		for prefix, document := range map[string]string{"": scaler + body, "listed": "kind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSuffix(scaler+body, "\n"), "\n", "\n  ")} {
			path := filepath.Join(t.TempDir(), "x.yaml")
			require.NoError(t, os.WriteFile(path, []byte(document), 0o600))
			code, out, errs := run(t, "validate", path)
			require.NotZero(t, code, "%s%s", prefix, document)
			require.True(t, strings.Contains(out, path+":") || strings.Contains(errs, "reading "+path), "%s%s", out, errs)
		}
	}
}
