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
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	startTimeout = 5 * time.Minute
	stopTimeout  = time.Minute
	pollInterval = 50 * time.Millisecond
)

// Process is a running devcluster.
type Process struct {
	// Kubeconfig is a file with an administrator's rights. It is gone after Stop.
	Kubeconfig string
	// Block of loopback addresses that is the cluster's own, as "127.K".
	Block string

	flags  []string
	life   atomic.Pointer[life]
	exited chan struct{}
	dir    string
}

// life is one run of the program.
type life struct {
	cmd        *exec.Cmd
	output     bytes.Buffer // both streams; read after ended is closed
	ended      chan struct{}
	err        error       // how it ended; read after ended is closed
	restarting atomic.Bool // its end is wanted, and not that of the Process
}

// Start starts a devcluster, with these flags more, and waits until it answers.
func Start(ctx context.Context, flags ...string) (*Process, error) {
	binary, err := Binary("devcluster")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "devcluster-ready-")
	if err != nil {
		return nil, fmt.Errorf("starting devcluster: %w", err)
	}
	p := &Process{exited: make(chan struct{}), dir: dir, flags: flags}
	if err := p.launch(binary); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := p.awaitReady(ctx); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

func (p *Process) launch(binary string) error {
	l := &life{ended: make(chan struct{})}
	l.cmd = exec.Command(binary, slices.Concat([]string{"up", "--ready-file", p.readyFile()}, p.flags)...) //nolint:noctx // Stop ends it in order
	l.cmd.Stdout, l.cmd.Stderr = &l.output, &l.output
	l.cmd.SysProcAttr = ofItsOwn()
	if err := l.cmd.Start(); err != nil {
		return fmt.Errorf("starting devcluster: %w", err)
	}
	p.life.Store(l)
	go func() {
		l.err = l.cmd.Wait()
		close(l.ended)
		if !l.restarting.Load() {
			close(p.exited)
		}
	}()
	return nil
}

// Restart kills etcd and API server and starts them again on their data, which a flag --data-dir must keep. It returns when
// they answer.
func (p *Process) Restart(ctx context.Context) error {
	binary, err := Binary("devcluster")
	if err != nil {
		return err
	}
	l := p.life.Load()
	l.restarting.Store(true)
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-l.ended // what is left of it ends in order
	if err := os.RemoveAll(p.readyFile()); err != nil {
		return fmt.Errorf("restarting devcluster: %w", err)
	}
	if err := p.launch(binary); err != nil {
		return err
	}
	return p.awaitReady(ctx)
}

func (p *Process) readyFile() string { return filepath.Join(p.dir, "ready.json") }

// awaitReady returns when the ready file is there, or why it never will be.
func (p *Process) awaitReady(ctx context.Context) error {
	l := p.life.Load()
	deadline := time.After(startTimeout)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !p.ready() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("starting devcluster: %w", ctx.Err())
		case <-l.ended:
			return fmt.Errorf("starting devcluster: it ended at once: %w\n%s", l.err, &l.output)
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
	pid, err := childOf(p.life.Load().cmd.Process.Pid, "control-plane")
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
	l := p.life.Load()
	_ = l.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-l.ended:
	case <-time.After(stopTimeout):
		_ = l.cmd.Process.Kill()
		<-l.ended
		return fmt.Errorf("stopping devcluster: it did not end within %s and was killed", stopTimeout)
	}
	if l.err != nil {
		return fmt.Errorf("stopping devcluster: %w\n%s", l.err, &l.output)
	}
	return nil
}
