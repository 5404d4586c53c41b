package ownership

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// page is what docs/gitops.md prints.
type page struct {
	manifest    *unstructured.Unstructured // the deployment without counts
	handOver    *unstructured.Unstructured
	command     []string // that applies the hand-over, without the file
	serverSide  *unstructured.Unstructured
	argoIgnores *unstructured.Unstructured
	fluxIgnores *unstructured.Unstructured
}

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// readPage takes the manifests out of the page; there must be one of each and no other.
func readPage(t *testing.T) (p page) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "gitops.md"))
	require.NoError(t, err)
	for _, block := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
		object := parse(t, block[1])
		place := p.place(object)
		require.NotNil(t, place, "a block that nothing tests:\n%s", block[1])
		require.Nil(t, *place, "a block of a kind that was there before:\n%s", block[1])
		*place = object
		if place == &p.handOver {
			line, _, _ := strings.Cut(strings.TrimPrefix(block[1], "# kubectl "), "\n")
			command, file, found := strings.Cut(line, " -f ")
			require.True(t, found && file == "hand-over.yaml", line)
			p.command = strings.Fields(command)
		}
	}
	for _, object := range []*unstructured.Unstructured{p.manifest, p.handOver, p.serverSide, p.argoIgnores, p.fluxIgnores} {
		require.NotNil(t, object, "a block is missing")
	}
	return p
}

// place of a block of the page; nil for an unknown one.
func (p *page) place(object *unstructured.Unstructured) **unstructured.Unstructured {
	has := func(path ...string) bool {
		_, found, err := unstructured.NestedFieldNoCopy(object.Object, path...)
		return found && err == nil
	}
	switch {
	case object.GetKind() == "ModelDeployment" && has("spec", "engine"):
		return &p.manifest
	case object.GetKind() == "ModelDeployment":
		return &p.handOver
	case object.GetKind() == "Application" && has("spec", "ignoreDifferences"):
		return &p.argoIgnores
	case object.GetKind() == "Application":
		return &p.serverSide
	case object.GetKind() == "Kustomization" && has("spec", "ignore"):
		return &p.fluxIgnores
	}
	return nil
}

// rule is the first entry of a list in a manifest's spec.
func rule(t *testing.T, object *unstructured.Unstructured, field string) map[string]any {
	t.Helper()
	list, found, err := unstructured.NestedSlice(object.Object, "spec", field)
	require.NoError(t, err)
	require.True(t, found)
	require.Len(t, list, 1)
	return list[0].(map[string]any)
}

// resolve follows a JSON pointer (RFC 6901).
func resolve(object any, pointer string) (value any, found bool) {
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		key := strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		switch at := object.(type) {
		case map[string]any:
			object, found = at[key]
		case []any:
			var index int
			for _, digit := range key {
				index = 10*index + int(digit-'0')
			}
			if found = index < len(at); found {
				object = at[index]
			}
		default:
			return nil, false
		}
		if !found {
			return nil, false
		}
	}
	return object, true
}
