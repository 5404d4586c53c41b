package testcluster

import (
	"bytes"
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

// process is a running devcluster.
type process struct {
	cmd    *exec.Cmd
	output *bytes.Buffer // both streams; read after exited is closed
	exited chan struct{}
	err    error // how it exited; read after exited is closed
	dir    string
}

// ready is what devcluster writes once everything answers.
type ready struct {
	Kubeconfig string `json:"kubeconfig"`
	Block      string `json:"block"`
}

func startDevcluster() (*Cluster, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(binary(root)); err != nil {
		return nil, fmt.Errorf("starting a test cluster: bin/devcluster is not built: run `make build` (7 to 10 minutes the first time): %w", err)
	}
	dir, err := os.MkdirTemp("", "testcluster-")
	if err != nil {
		return nil, fmt.Errorf("starting a test cluster: %w", err)
	}
	p, err := launch(binary(root), dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	state, err := p.awaitReady()
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return &Cluster{Kubeconfig: state.Kubeconfig, Block: state.Block, process: p}, nil
}

func launch(path, dir string) (*process, error) {
	p := &process{output: &bytes.Buffer{}, exited: make(chan struct{}), dir: dir}
	p.cmd = exec.Command(path, "up", "--ready-file", p.readyFile())
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.SysProcAttr = dieWithParent()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a test cluster: %w", err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

func (p *process) readyFile() string { return filepath.Join(p.dir, "ready.json") }

// awaitReady returns when the ready file is there, or why it never will be.
func (p *process) awaitReady() (ready, error) {
	deadline := time.After(startTimeout)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-p.exited:
			return ready{}, fmt.Errorf("starting a test cluster: devcluster ended: %w\n%s", p.err, p.output)
		case <-deadline:
			return ready{}, fmt.Errorf("starting a test cluster: devcluster was not ready after %s", startTimeout)
		case <-tick.C:
		}
		data, err := os.ReadFile(p.readyFile())
		var state ready
		if err == nil && json.Unmarshal(data, &state) == nil {
			return state, nil
		}
	}
}

// stop ends devcluster in order; one that does not end is killed, and said so.
func (p *process) stop() error {
	defer func() { _ = os.RemoveAll(p.dir) }()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.exited
		return fmt.Errorf("stopping the test cluster: it did not end within %s and was killed", stopTimeout)
	}
	if p.err != nil {
		return fmt.Errorf("stopping the test cluster: %w\n%s", p.err, p.output)
	}
	return nil
}
