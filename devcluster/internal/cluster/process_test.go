package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stubborn does not end on SIGTERM, and says when that is so.
const stubborn = `trap "" TERM; echo deaf; while :; do sleep 1; done`

func startShell(t *testing.T, script string) *process {
	t.Helper()
	p, err := startProcess(t.TempDir(), "shell", []string{"/bin/sh", "-c", script})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
	})
	return p
}

func awaitOutput(t *testing.T, p *process, text string) {
	t.Helper()
	require.NoError(t, await(t.Context(), p, p.name, func(context.Context) error {
		content, err := os.ReadFile(p.log)
		if err == nil && !strings.Contains(string(content), text) {
			err = errors.New("not yet")
		}
		return err
	}))
}

func TestStop(t *testing.T) {
	ended := func() context.Context {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return ctx
	}
	for name, test := range map[string]struct {
		script string
		kill   context.Context
		grace  time.Duration
		fate   string
	}{
		"a process that listens ends by itself":           {`trap "exit 0" TERM; echo deaf; while :; do sleep 0.01; done`, context.Background(), time.Minute, ""},
		"a stubborn process is killed after the grace":    {stubborn, context.Background(), time.Millisecond, "signal: killed"},
		"a stubborn process is killed at once when asked": {stubborn, ended(), time.Hour, "signal: killed"},
	} {
		t.Run(name, func(t *testing.T) {
			p := startShell(t, test.script)
			awaitOutput(t, p, "deaf")
			p.stop(test.kill, test.grace)
			if test.fate == "" {
				require.NoError(t, p.err)
				return
			}
			require.EqualError(t, p.err, test.fate)
		})
	}
	t.Run("a process that has ended needs no stop", func(t *testing.T) {
		p := startShell(t, "exit 3")
		<-p.done
		p.stop(context.Background(), time.Hour)
		require.EqualError(t, p.err, "exit status 3")
	})
}

func TestAwait(t *testing.T) {
	never := func(context.Context) error { return errors.New("never") }
	t.Run("tells why a process ended, with the end of its log", func(t *testing.T) {
		p := startShell(t, "echo first; echo no space left on device >&2; exit 3")
		err := await(t.Context(), p, "shell", never)
		require.EqualError(t, err, "shell failed: exit status 3\n    first\n    no space left on device")
		require.ErrorContains(t, explain(err), "way out: the disk is full")
	})
	t.Run("ends with its context", func(t *testing.T) {
		p := startShell(t, stubborn)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, await(ctx, p, "shell", never), context.Canceled)
	})
}

func TestAProgramThatIsMissingIsNamed(t *testing.T) {
	_, err := startProcess(t.TempDir(), "etcd", []string{"/no/such/etcd"})
	require.ErrorContains(t, err, "starting etcd: ")
	require.ErrorContains(t, err, "/no/such/etcd")
}

func TestTailIsTheEndOfALog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	require.Contains(t, tail(path), "no such file")
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("line\n", 100_000)+"last\n"), 0o600))
	lines := strings.Split(tail(path), "\n")
	require.Len(t, lines, tailLines)
	require.Equal(t, "last", lines[tailLines-1])
}

func TestTailOfAPanicBeginsAtItsCause(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	stack := strings.Repeat("frame\n", 100)
	require.NoError(t, os.WriteFile(path, []byte("1\n2\n3\n4\npanic: no space left on device\n"+stack), 0o600))
	require.True(t, strings.HasPrefix(tail(path), "2\n3\n4\npanic: no space left on device\nframe\n"))
	require.Len(t, strings.Split(tail(path), "\n"), tailLines)
}
