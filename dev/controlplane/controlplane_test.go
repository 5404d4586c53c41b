package controlplane

import (
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// answers says whether the API server answers at all; without credentials it refuses, which is an answer.
func answers(p *Process) bool {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	response, err := client.Get("https://" + p.Block + ".0.1:6443/readyz")
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return true
}

func TestTheAPIServerCanBeFrozenAndStopped(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	p, err := Start(t.Context())
	require.NoError(t, err)
	require.FileExists(t, p.Kubeconfig)
	require.Eventually(t, func() bool { return answers(p) }, 90*time.Second, 100*time.Millisecond)
	require.NoError(t, p.Signal(syscall.SIGSTOP))
	require.False(t, answers(p))
	require.NoError(t, p.Signal(syscall.SIGCONT))
	require.Eventually(t, func() bool { return answers(p) }, 90*time.Second, 100*time.Millisecond)

	require.NoError(t, p.Signal(syscall.SIGSTOP))
	require.NoError(t, p.Stop(), "one that is frozen is woken to end in order")
	<-p.Exited()
	require.False(t, answers(p))
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestAStartThatIsNoLongerWantedEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Start(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestWhatIsMissingIsNamedWithTheWayOut(t *testing.T) {
	_, err := Binary("no-such-program")
	require.ErrorContains(t, err, "run `make build`")
	t.Chdir(t.TempDir())
	_, err = Start(t.Context())
	require.ErrorContains(t, err, "start inside the repository")
}
