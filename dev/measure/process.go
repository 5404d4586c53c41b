package measure

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// Start runs a program until ctx ends, and then ends it in order; a program that ends before is an error of the group.
func Start(ctx context.Context, g *errgroup.Group, cmd *exec.Cmd) error {
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	g.Go(func() error {
		if err := cmd.Wait(); ctx.Err() == nil {
			return fmt.Errorf("running %s: it ended: %w", cmd.Path, err)
		}
		return nil
	})
	return nil
}

// Pause waits for d, or until ctx ends, which is an error.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("measuring: %w", context.Cause(ctx))
	case <-timer.C:
		return nil
	}
}

// FreeAddress is a loopback address that nobody listens on.
func FreeAddress(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}

// Machine is what the figures were measured on.
func Machine() string {
	return fmt.Sprintf("%s/%s, %d CPUs, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
}
