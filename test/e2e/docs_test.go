package e2e

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/dev/controlplane"
)

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// The Go client of docs/observations.md, as it stands there.
func (s *stage) theGoClientOfTheDocsRuns(t *testing.T) {
	token := s.viewer("viewer", serviceName)
	leader, _ := s.deciders()
	s.eventually("the right is in force", func() bool { _, err := s.list(leader, token, s.namespace); return err == nil })

	root, err := controlplane.Root()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "observations.md"))
	require.NoError(t, err)
	blocks := goBlock.FindAllSubmatch(page, -1)
	require.Len(t, blocks, 1)
	dir, err := os.MkdirTemp(filepath.Join(root, "bin"), "client-") // inside the module, whose packages it imports
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), blocks[0][1], 0o600))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "client"), ".")
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	run := exec.CommandContext(ctx, filepath.Join(dir, "client"), grpcAddress(leader), s.file("ca.crt", s.authority()), s.file("token", []byte(token)), s.namespace)
	var errs bytes.Buffer
	run.Stderr = &errs
	out, err := run.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, run.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	cancel()
	_ = run.Wait() // killed; errs is whole only now
	require.NoError(t, err, errs.String())
	require.Regexp(t, `^chat server 1 -> \d+ \w+\n$`, line)
}
