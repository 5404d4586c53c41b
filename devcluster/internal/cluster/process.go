package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// process is a component that runs as a child; its output goes to a log file.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // how it ended, readable after done
}

// startProcess starts a component. The kernel kills it when this process
// dies, however it dies.
func startProcess(logDir, name string, argv []string) (*process, error) {
	p := &process{name: name, log: filepath.Join(logDir, name+".log"), done: make(chan struct{})}
	file, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p.cmd = exec.Command(argv[0], argv[1:]...) //nolint:gosec,noctx // the components, which are stopped in order and not by a context
	p.cmd.Stdout, p.cmd.Stderr = file, file
	p.cmd.SysProcAttr = childAttributes()
	started := make(chan error)
	go func() {
		// The death signal is sent when the thread that started the child
		// ends, so this goroutine keeps its thread until the child is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- errors.Join(err, file.Close())
		if err == nil {
			p.err = p.cmd.Wait()
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return p, nil
}

// stop asks the process to end and kills it after the grace period, or at
// once when the context ends.
func (p *process) stop(ctx context.Context, grace time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	// An error says that the process has ended; done will say so too.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-ctx.Done():
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// ended is the failure of a process that should still run.
func (p *process) ended() error {
	cause := "it exited"
	if p.err != nil {
		cause = p.err.Error()
	}
	return &componentError{name: p.name, log: p.log, cause: cause}
}
