//go:build !linux

package testcluster

import "syscall"

// dieWithParent: this system cannot; a cluster whose tests were killed has to be stopped by hand.
func dieWithParent() *syscall.SysProcAttr { return nil }
