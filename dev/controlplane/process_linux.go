package controlplane

import "syscall"

// ofItsOwn stops the cluster in order when its user is killed. It gets a group of its own, so that a Ctrl-C in the terminal
// reaches the user alone, which stops the cluster last.
func ofItsOwn() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
}
