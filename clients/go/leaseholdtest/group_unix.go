//go:build unix

package leaseholdtest

import "syscall"

// ownGroup keeps Ctrl-C at a terminal, which ends the tests, from the sidecar: it ends after them.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
