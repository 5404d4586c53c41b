package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ofItsOwn stops the cluster in order when its user is killed. It gets a group of its own, so that a Ctrl-C in the terminal
// reaches the user alone, which stops the cluster last.
func ofItsOwn() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
}

// childOf is the child of a process that was started with a first argument.
func childOf(pid int, argument string) (int, error) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return 0, err
	}
	for _, list := range lists {
		children, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, child := range strings.Fields(string(children)) {
			line, err := os.ReadFile(filepath.Join("/proc", child, "cmdline"))
			if arguments := strings.Split(string(line), "\x00"); err == nil && len(arguments) > 1 && arguments[1] == argument {
				return strconv.Atoi(child)
			}
		}
	}
	return 0, fmt.Errorf("process %d has no child %s", pid, argument)
}
