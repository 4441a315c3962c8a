package main

import "syscall"

// groupOfItsOwn has a command run in a process group of its own, and be killed with the thread that started it.
func groupOfItsOwn() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
