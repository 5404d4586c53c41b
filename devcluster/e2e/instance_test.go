package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// patience bounds what takes seconds on a free machine.
	patience = 5 * time.Minute
	// stopDeadline is what "up" promises to its callers.
	stopDeadline = 10 * time.Second
	tick         = 20 * time.Millisecond
)

// instance is one running "devcluster up".
type instance struct {
	cmd       *exec.Cmd
	output    bytes.Buffer // readable after done
	readyFile string
	done      chan struct{}
	err       error // how it ended, readable after done

	Kubeconfig  string `json:"kubeconfig"`
	Block       string `json:"block"`
	ServiceCIDR string `json:"serviceCIDR"`
	PodCIDR     string `json:"podCIDR"`
	PID         int    `json:"pid"`
}

// launch starts an instance whose temporary files go to dir.
func launch(dir string, args ...string) (*instance, error) {
	i := &instance{readyFile: filepath.Join(dir, "ready.json"), done: make(chan struct{})}
	i.cmd = exec.Command(binary, append([]string{"up", "--ready-file", i.readyFile}, args...)...)
	i.cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	i.cmd.Stdout, i.cmd.Stderr = &i.output, &i.output
	if err := i.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		i.err = i.cmd.Wait()
		close(i.done)
	}()
	return i, nil
}

// start launches an instance that is stopped at the end of the test.
func start(t *testing.T, dir string, args ...string) *instance {
	t.Helper()
	i, err := launch(dir, args...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = i.terminate() })
	return i
}

func (i *instance) waitReady() error {
	deadline := time.After(patience)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-i.done:
			return fmt.Errorf("devcluster up ended: %w\n%s", i.err, i.output.String())
		case <-deadline:
			return errors.Join(errors.New("devcluster up was not ready in time"), i.terminate())
		case <-ticker.C:
			content, err := os.ReadFile(i.readyFile)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			return json.Unmarshal(content, i)
		}
	}
}

// signal sends a signal and waits for the end; an instance that stays longer
// than it may is killed.
func (i *instance) signal(s os.Signal) error {
	if err := i.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-i.done:
		return i.err
	case <-time.After(stopDeadline):
		return errors.Join(fmt.Errorf("devcluster up was running %s after %s", stopDeadline, s), i.cmd.Process.Kill())
	}
}

func (i *instance) terminate() error { return i.signal(syscall.SIGTERM) }

// kubectl runs "devcluster kubectl" and requires that it succeeds.
func (i *instance) kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	output, err := i.kubectlCommand(stdin, args...).CombinedOutput()
	require.NoError(t, err, "kubectl %s: %s", strings.Join(args, " "), output)
	return string(output)
}

func (i *instance) kubectlCommand(stdin string, args ...string) *exec.Cmd {
	cmd := exec.Command(binary, append([]string{"kubectl"}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+i.Kubeconfig)
	cmd.Stdin = strings.NewReader(stdin)
	return cmd
}

// namespace makes a namespace for one run of one test.
func (i *instance) namespace(t *testing.T) string {
	t.Helper()
	name := i.kubectl(t, `{apiVersion: v1, kind: Namespace, metadata: {generateName: test-}}`,
		"create", "-f", "-", "-o", "jsonpath={.metadata.name}")
	t.Cleanup(func() { i.kubectl(t, "", "delete", "namespace", name, "--wait=false") })
	return name
}

// children returns the processes that the instance has started.
func (i *instance) children(t *testing.T) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	var pids []int
	for _, stat := range stats {
		if parent, pid := parentOf(stat); parent == i.cmd.Process.Pid {
			pids = append(pids, pid)
		}
	}
	return pids
}

// parentOf reads a /proc/PID/stat file; the fields after the command, which
// is in parentheses and may hold anything, are state and parent.
func parentOf(stat string) (parent, pid int) {
	content, err := os.ReadFile(stat)
	if err != nil {
		return 0, 0 // ended since it was listed
	}
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	parent, _ = strconv.Atoi(fields[1])
	pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(stat)))
	return parent, pid
}

func requireGone(t *testing.T, pids []int) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, pid := range pids {
			if syscall.Kill(pid, 0) == nil && !isZombie(pid) {
				return false
			}
		}
		return true
	}, stopDeadline, tick, "processes %v are still running", pids)
}

// isZombie tells a process that has ended from one that runs: an orphan stays
// in the table until whoever adopted it collects it.
func isZombie(pid int) bool {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	return bytes.HasPrefix(bytes.TrimSpace(content[bytes.LastIndexByte(content, ')')+1:]), []byte("Z"))
}
