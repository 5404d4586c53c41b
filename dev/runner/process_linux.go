package runner

import "syscall"

// dieWithParent ends the program when the runner is killed. It gets a group of its own, so that a Ctrl-C in the terminal
// reaches the runner alone, which then stops everything in order.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
