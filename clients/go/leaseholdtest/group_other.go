//go:build !unix

package leaseholdtest

import "syscall"

func ownGroup() *syscall.SysProcAttr { return nil }
