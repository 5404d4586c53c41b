package testcluster

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"gpustack.ai/model-deployment-scaler/dev/controlplane"
)

// Cluster is a running API server.
type Cluster struct {
	Kubeconfig string
	// Block of loopback addresses that is the cluster's own, as "127.K"; empty for a cluster that was not started here.
	Block string

	process *controlplane.Process // nil: not started here
}

var shared struct {
	once    sync.Once
	cluster *Cluster
	err     error
}

// Run runs the tests of a package and stops the cluster that they may have started: os.Exit(testcluster.Run(m)).
func Run(m *testing.M) int {
	code := m.Run()
	if shared.cluster == nil {
		return code
	}
	if err := shared.cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// Get gives the package's cluster, starting it when this is the first call. The package's TestMain must call Run.
func Get(t testing.TB) *Cluster {
	t.Helper()
	shared.once.Do(func() { shared.cluster, shared.err = Start() })
	require.NoError(t, shared.err)
	return shared.cluster
}

// Start starts a cluster of one's own, or takes $KUBECONFIG when MDS_TEST_KUBECONFIG=1 asks for it.
func Start() (*Cluster, error) {
	if os.Getenv("MDS_TEST_KUBECONFIG") == "1" {
		path := os.Getenv("KUBECONFIG")
		if path == "" {
			return nil, fmt.Errorf("starting a test cluster: MDS_TEST_KUBECONFIG=1 asks for the cluster of KUBECONFIG, which is not set")
		}
		return &Cluster{Kubeconfig: path}, nil
	}
	process, err := controlplane.Start(context.Background())
	if err != nil {
		return nil, fmt.Errorf("starting a test cluster: %w", err)
	}
	return &Cluster{Kubeconfig: process.Kubeconfig, Block: process.Block, process: process}, nil
}

// Stop stops a cluster that was started here.
func (c *Cluster) Stop() error {
	if c.process == nil {
		return nil
	}
	return c.process.Stop()
}

// Config is a client configuration with administrator rights, generous with requests.
func (c *Cluster) Config(t testing.TB) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	require.NoError(t, err)
	config.QPS, config.Burst = 500, 1000
	return config
}

// Apply applies manifest files, in paths relative to the root of the module; CRDs among them are served when it returns.
func (c *Cluster) Apply(t testing.TB, paths ...string) {
	t.Helper()
	require.NoError(t, controlplane.Apply(t.Context(), c.Kubeconfig, paths...))
}

// Kubectl runs kubectl in the root of the module and returns what it printed. It serves cleanups, too.
func (c *Cluster) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	output, err := controlplane.Kubectl(context.WithoutCancel(t.Context()), c.Kubeconfig, args...)
	require.NoError(t, err)
	return output
}
