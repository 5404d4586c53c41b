package cluster

import "syscall"

// childAttributes keep the terminal's Ctrl-C from the children, which are
// stopped in order, and let none outlive this process.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
