package harness

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheSystemComesUpAndLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var steps []string
	c, err := Start(context.Background(), Options{Progress: func(step string) { steps = append(steps, step) }})
	require.NoError(t, err)
	require.NotEmpty(t, steps)
	leader, err := c.Leader(t.Context())
	require.NoError(t, err)
	require.Contains(t, leader, "decider-")
	webhook := c.Pods("webhook")
	require.Len(t, webhook, 2)
	require.Len(t, c.Pods("sampler"), 2)
	for _, sampler := range c.Pods("sampler") {
		environment := environmentOf(t, sampler.Name)
		require.NotContains(t, environment, "KUBECONFIG=", "samplers hold no credentials")
	}
	require.Eventually(t, func() bool { return strings.Contains(c.Logs(3), "--- webhook-0 (ready true") }, patience, often)

	require.NoError(t, c.Stop())
	_, err = net.Dial("tcp", webhook[0].IP+":8443")
	require.Error(t, err, "no port stays open")
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	require.NoError(t, err)
	require.Empty(t, left, "no file stays behind")
	require.Empty(t, children(t), "no process stays behind")
}

func TestAStartThatIsInterruptedLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, at := range []string{"applying the definitions", "waiting for a leader and the webhook"} {
		t.Run(at, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			_, err := Start(ctx, Options{Progress: func(step string) {
				if step == at {
					cancel()
				}
			}})
			require.ErrorIs(t, err, context.Canceled)
			left, err := filepath.Glob(filepath.Join(os.TempDir(), "*"))
			require.NoError(t, err)
			require.Empty(t, left)
			require.Empty(t, children(t))
		})
	}
}
