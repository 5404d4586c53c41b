package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	startTimeout = 2 * time.Minute
	stopTimeout  = 20 * time.Second
	pollInterval = 50 * time.Millisecond
)

// Process is a running devcluster.
type Process struct {
	// Kubeconfig is a file with an administrator's rights. It is gone after Stop.
	Kubeconfig string
	// Block of loopback addresses that is the cluster's own, as "127.K".
	Block string

	cmd    *exec.Cmd
	output *bytes.Buffer // both streams; read after exited is closed
	exited chan struct{}
	err    error // how it exited; read after exited is closed
	dir    string
}

// Start starts a devcluster and waits until it answers.
func Start(ctx context.Context) (*Process, error) {
	binary, err := Binary("devcluster")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "devcluster-ready-")
	if err != nil {
		return nil, fmt.Errorf("starting devcluster: %w", err)
	}
	p, err := launch(binary, dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := p.awaitReady(ctx); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

func launch(binary, dir string) (*Process, error) {
	p := &Process{output: &bytes.Buffer{}, exited: make(chan struct{}), dir: dir}
	p.cmd = exec.Command(binary, "up", "--ready-file", p.readyFile()) //nolint:noctx // Stop ends it in order
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.SysProcAttr = ofItsOwn()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting devcluster: %w", err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

func (p *Process) readyFile() string { return filepath.Join(p.dir, "ready.json") }

// awaitReady returns when the ready file is there, or why it never will be.
func (p *Process) awaitReady(ctx context.Context) error {
	deadline := time.After(startTimeout)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !p.ready() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("starting devcluster: %w", ctx.Err())
		case <-p.exited:
			return fmt.Errorf("starting devcluster: it ended at once: %w\n%s", p.err, p.output)
		case <-deadline:
			return fmt.Errorf("starting devcluster: it was not ready after %s", startTimeout)
		case <-tick.C:
		}
	}
	return nil
}

// ready reads what devcluster writes once everything answers.
func (p *Process) ready() bool {
	var state struct{ Kubeconfig, Block string }
	data, err := os.ReadFile(p.readyFile())
	if err != nil || json.Unmarshal(data, &state) != nil {
		return false
	}
	p.Kubeconfig, p.Block = state.Kubeconfig, state.Block
	return true
}

// Signal sends a signal to the process that is etcd and API server: SIGSTOP freezes both, SIGCONT lets them go on.
func (p *Process) Signal(sig os.Signal) error {
	pid, err := childOf(p.cmd.Process.Pid, "control-plane")
	if err != nil {
		return fmt.Errorf("signalling the API server: %w", err)
	}
	server, err := os.FindProcess(pid)
	if err != nil {
		return fmt.Errorf("signalling the API server: %w", err)
	}
	if err := server.Signal(sig); err != nil {
		return fmt.Errorf("signalling the API server: %w", err)
	}
	return nil
}

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Stop ends devcluster in order; one that does not end is killed, and said so.
func (p *Process) Stop() error {
	defer func() { _ = os.RemoveAll(p.dir) }()
	_ = p.Signal(syscall.SIGCONT) // who is frozen does not end; gone already: nothing to do
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.exited
		return fmt.Errorf("stopping devcluster: it did not end within %s and was killed", stopTimeout)
	}
	if p.err != nil {
		return fmt.Errorf("stopping devcluster: %w\n%s", p.err, p.output)
	}
	return nil
}
