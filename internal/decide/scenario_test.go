package decide_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/internal/scenario"
)

// Every scenario file of the project is a test of the planner.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("../scenario/testdata/*/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			requireHolds(t, file)
		})
	}
}

func requireHolds(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	s, err := scenario.Parse(file, data)
	require.NoError(t, err)
	passes, err := scenario.Play(s)
	require.NoError(t, err)
	for _, v := range scenario.Judge(s, passes) {
		require.True(t, v.Holds, "%s:%d: %s: %v%s", file, v.Line, v.When, v.Misses, traceOf(v, passes))
	}
}

func traceOf(v scenario.Verdict, passes []scenario.Pass) string {
	if v.Pass < 0 {
		return ""
	}
	p := passes[v.Pass]
	return fmt.Sprintf(" (at %d: hold %q, trace %v)", p.At, p.Decision.Hold, p.Decision.Trace)
}
