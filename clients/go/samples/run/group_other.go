//go:build unix && !linux

package main

import "syscall"

// groupOfItsOwn has a command run in a process group of its own.
func groupOfItsOwn() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
