//go:build !linux

package cluster

import "syscall"

// childAttributes keep the terminal's Ctrl-C from the children. Only Linux
// can promise that none outlives a killed parent.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
