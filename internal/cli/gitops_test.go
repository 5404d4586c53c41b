package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

func TestGitOpsPrintsTheRecipeOfManifests(t *testing.T) {
	for name, args := range map[string][]string{
		"gitops.txt":      {"gitops", "llm-serving", "-f", "testdata/gitops.yaml"},
		"gitops.json":     {"gitops", "llm-serving", "-f", "testdata/gitops.yaml", "-n", "default", "-o", "json"},
		"gitops-help.txt": {"gitops", "--help"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := run(t, args...)
			require.Zero(t, code, errs)
			golden(t, name, out)
		})
	}
}

func TestGitOpsSaysWhatIsWrong(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no name":                         {nil, 2, "accepts 1 arg(s), received 0"},
		"an output that there is not":     {[]string{"x", "-o", "yaml"}, 2, `--output: "yaml" is not one of text, json`},
		"a file that is not there":        {[]string{"x", "-f", "testdata/none.yaml"}, 2, "testdata/none.yaml: no such file or directory"},
		"another name":                    {[]string{"x", "-f", "testdata/gitops.yaml"}, 1, "no ModelDeployment x in namespace default among the 2 objects that were read"},
		"another namespace":               {[]string{"llm-serving", "-n", "prod", "-f", "testdata/gitops.yaml"}, 1, "no ModelDeployment llm-serving in namespace prod"},
		"a kubeconfig that is not there":  {[]string{"x", "--kubeconfig", "testdata/none"}, 1, "finding the cluster (or name a manifest with -f): "},
		"a role without a name in a file": {[]string{"x", "-f", "-"}, 1, "reading ModelDeployment default/x: spec.roles[0]: has no name"},
	} {
		t.Run(name, func(t *testing.T) {
			withInput(t, `{"kind": "ModelDeployment", "metadata": {"name": "x"}, "spec": {"roles": [{}]}}`)
			code, _, errs := run(t, append([]string{"gitops"}, tt.args...)...)
			require.Equal(t, tt.code, code, errs)
			require.Contains(t, errs, tt.want)
		})
	}
}

// withInput gives the process a standard input.
func withInput(t *testing.T, text string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	in, err := os.Open(path)
	require.NoError(t, err)
	was := os.Stdin
	os.Stdin = in
	t.Cleanup(func() { os.Stdin = was; require.NoError(t, in.Close()) })
}

// cluster serves one deployment in v1alpha1 alone, as a cluster of old does, and gives its kubeconfig.
func cluster(t *testing.T) (kubeconfig string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/apis/worker.gpustack.ai/v1alpha1/namespaces/prod/modeldeployments/chat":
			fmt.Fprint(w, `{"apiVersion": "worker.gpustack.ai/v1alpha1", "kind": "ModelDeployment", "metadata": {"name": "chat", "namespace": "prod"},
				"spec": {"roles": [{"name": "server", "replicas": 7}]}}`)
		case "/apis/worker.gpustack.ai/v1alpha1/namespaces/prod/modeldeployments/gone":
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "modeldeployments \"gone\" not found", "reason": "NotFound", "code": 404}`)
		default:
			w.Header().Set("Content-Type", "text/plain")
			http.Error(w, "404 page not found", http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, []byte(`
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "`+server.URL+`"}}]
contexts: [{name: here, context: {cluster: c, namespace: prod}}, {name: there, context: {cluster: c, namespace: other}}]
current-context: here
`), 0o600))
	return kubeconfig
}

func TestGitOpsReadsTheClusterInTheVersionThatItServes(t *testing.T) {
	kubeconfig := cluster(t)
	code, out, errs := run(t, "gitops", "chat", "--kubeconfig", kubeconfig)
	require.Zero(t, code, errs)
	golden(t, "gitops-live.txt", strings.ReplaceAll(out, " --kubeconfig "+kubeconfig, ""))
	_, out, _ = run(t, "gitops", "chat", "--kubeconfig", kubeconfig, "--context", "here")
	require.Contains(t, out, "kubectl apply --kubeconfig "+kubeconfig+" --context here --server-side ", "the hand-over goes to the same cluster")

	for name, args := range map[string][]string{
		`reading ModelDeployment prod/gone: modeldeployments "gone" not found`: {"gone"},
		`reading ModelDeployment other/chat: `:                                 {"chat", "--context", "there"},
		`reading ModelDeployment here/chat: `:                                  {"chat", "-n", "here"},
	} {
		code, _, errs := run(t, append([]string{"gitops", "--kubeconfig", kubeconfig}, args...)...)
		require.Equal(t, 1, code)
		require.Contains(t, errs, name)
	}
}

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// Everything that is printed for the deployment of docs/gitops.md stands on that page.
func TestGitOpsPrintsWhatThePageSays(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "gitops.md"))
	require.NoError(t, err)
	var blocks []map[string]any
	for _, block := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
		var object map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(block[1]), &object))
		blocks = append(blocks, object)
	}
	code, out, errs := run(t, "gitops", "llm-serving", "-f", "testdata/gitops.yaml", "-o", "json")
	require.Zero(t, code, errs)
	var printed struct {
		Git    map[string]any
		ArgoCD struct{ ServerSideApply, IgnoreDifferences map[string]any }
		Flux   struct{ Ignore map[string]any }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &printed))
	for _, object := range []map[string]any{printed.Git, printed.ArgoCD.ServerSideApply, printed.ArgoCD.IgnoreDifferences, printed.Flux.Ignore} {
		found := false
		for _, block := range blocks {
			found = found || within(object, block)
		}
		require.True(t, found, "the page has no block with %v", object)
	}
	require.Contains(t, string(text), "--field-manager="+handOverManager)
	require.NotRegexp(t, "^kubectl", handOverManager, "Flux takes over what such managers own")
	require.Equal(t, 1, strings.Count(string(text), "--field-manager="))
}

// within says that all of a manifest stands in another, which may have more fields.
func within(part, whole any) bool {
	switch part := part.(type) {
	case map[string]any:
		fields, is := whole.(map[string]any)
		for key, value := range part {
			other, found := fields[key]
			is = is && found && within(value, other)
		}
		return is
	case []any:
		items, is := whole.([]any)
		is = is && len(items) == len(part)
		for i := range part {
			is = is && within(part[i], items[i])
		}
		return is
	default:
		return part == whole
	}
}
