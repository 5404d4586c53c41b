package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/dev/harness"
)

// The tests share one system, which the first of them starts. Tests that break what all use run one by one, before the
// parallel ones.
var shared struct {
	once    sync.Once
	cluster *harness.Cluster
	err     error
}

func TestMain(m *testing.M) {
	flag.Parse()
	// The tests wait rather than work, so more of them than processors run at a time.
	if err := flag.Set("test.parallel", "16"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if shared.cluster != nil {
		if code != 0 {
			fmt.Fprintln(os.Stderr, shared.cluster.Logs(40))
		}
		if err := shared.cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

func system(t *testing.T) *harness.Cluster {
	t.Helper()
	shared.once.Do(func() { shared.cluster, shared.err = harness.Start(context.Background(), harness.Options{}) })
	require.NoError(t, shared.err)
	return shared.cluster
}
