package testcluster

import "syscall"

// dieWithParent stops the cluster when the tests are killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
