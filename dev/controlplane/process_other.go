//go:build !linux

package controlplane

import "syscall"

// ofItsOwn: this system cannot end the cluster of a user that was killed; it has to be stopped by hand.
func ofItsOwn() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
