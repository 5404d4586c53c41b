//go:build !linux

package controlplane

import (
	"errors"
	"syscall"
)

// ofItsOwn: this system cannot end the cluster of a user that was killed; it has to be stopped by hand.
func ofItsOwn() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func childOf(int, string) (int, error) {
	return 0, errors.New("children of a process are looked for on Linux alone")
}
