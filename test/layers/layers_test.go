// Package layers keeps the import rule of the house true: vocabulary knows nothing below it, pure packages touch nothing
// of the outside, adapters do not know each other, wiring is imported by nobody, and no shipped binary links a
// development tool.
package layers

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "gpustack.ai/model-deployment-scaler/"

// goPackage is what `go list -json` says of a package.
type goPackage struct {
	ImportPath, Dir        string
	GoFiles, Imports, Deps []string
}

// rule says what the packages of a layer must not import, themselves (direct) or through others (deps).
type rule struct {
	layer        []string
	direct, deps []string
}

var (
	vocabulary = []string{"api/worker/v1", "internal/observe", "internal/target", "internal/fence"}
	pure       = []string{"internal/windows", "internal/decide", "internal/sim", "internal/scenario"}
	adapters   = []string{"internal/scrape", "internal/stream", "internal/kube", "internal/admission", "internal/crd"}
	wiring     = []string{"internal/sampler", "internal/decider", "internal/webhook", "internal/cli"}
	outside    = []string{"k8s.io/client-go", "google.golang.org/grpc", "google.golang.org/protobuf", "go.uber.org/zap", "math/rand", "net/http", "os"}
	dev        = []string{"dev", "internal/sim", "internal/certs/certstest"}
)

var rules = map[string]rule{
	"vocabulary imports nothing below": {layer: vocabulary, direct: slices.Concat(ours(pure, adapters, wiring), outside)},
	"pure packages touch nothing of the outside": {layer: pure, direct: slices.Concat(ours(adapters, wiring), outside),
		deps: ours(adapters, wiring)},
	"adapters do not know each other nor the wiring": {layer: adapters, deps: ours(wiring)},
	"the sampler knows nothing of Kubernetes clients": {layer: []string{"internal/sampler", "cmd/sampler"},
		deps: append(ours([]string{"internal/kube"}), "k8s.io/client-go")},
	"shipped binaries link no development tool": {layer: []string{"cmd"}, deps: ours(dev)},
	"nothing pulls in controller-runtime":       {layer: []string{""}, deps: []string{"sigs.k8s.io/controller-runtime"}},
}

func TestTheImportRuleHolds(t *testing.T) {
	packages := list(t)
	for name, r := range rules {
		t.Run(name, func(t *testing.T) {
			for _, p := range packages {
				if !within(p.ImportPath, ours(r.layer)) {
					continue
				}
				require.Empty(t, offending(p.Imports, r.direct), "%s imports", p.ImportPath)
				require.Empty(t, offending(p.Deps, r.deps), "%s depends on", p.ImportPath)
			}
		})
	}
	t.Run("adapters import no other adapter", func(t *testing.T) {
		for _, p := range packages {
			for _, own := range ours(adapters) {
				if within(p.ImportPath, []string{own}) {
					others := slices.DeleteFunc(ours(adapters), func(a string) bool { return a == own })
					require.Empty(t, offending(p.Deps, others), "%s depends on", p.ImportPath)
				}
			}
		}
	})
	t.Run("wiring is imported by commands alone", func(t *testing.T) {
		for _, p := range packages {
			if !within(p.ImportPath, ours([]string{"cmd"})) && !within(p.ImportPath, ours(wiring)) {
				require.Empty(t, offending(p.Imports, ours(wiring)), "%s imports", p.ImportPath)
			}
		}
	})
}

func TestPurePackagesReadNoClock(t *testing.T) {
	for _, p := range list(t) {
		if !within(p.ImportPath, ours(pure)) {
			continue
		}
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, 0)
			require.NoError(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					call := types.ExprString(s)
					require.NotContains(t, clocks, call, "%s/%s reads a clock", p.ImportPath, name)
				}
				if _, ok := n.(*ast.GoStmt); ok {
					require.Fail(t, "a pure package starts a goroutine", "%s/%s", p.ImportPath, name)
				}
				return true
			})
		}
	}
}

var clocks = []string{"time.Now", "time.Since", "time.Until", "time.After", "time.Sleep", "time.NewTimer", "time.NewTicker", "time.AfterFunc", "time.Tick"}

// list asks the Go command for all packages of the module.
func list(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,GoFiles,Imports,Deps", module+"...").Output()
	require.NoError(t, err)
	var packages []goPackage
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := d.Decode(&p); err == io.EOF {
			break
		} else {
			require.NoError(t, err)
		}
		packages = append(packages, p)
	}
	require.Greater(t, len(packages), 10, "the module's packages were not found")
	return packages
}

func ours(lists ...[]string) []string {
	var all []string
	for _, p := range slices.Concat(lists...) {
		all = append(all, strings.TrimSuffix(module+p, "/"))
	}
	return all
}

func within(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(r string) bool { return path == r || strings.HasPrefix(path, r+"/") })
}

func offending(imports, forbidden []string) []string {
	return slices.DeleteFunc(slices.Clone(imports), func(i string) bool { return !within(i, forbidden) })
}
