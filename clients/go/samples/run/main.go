//go:build unix

// Run runs a command while it holds a lock, kills it when the lock is lost, and passes on its exit code. The exit code
// is 75 if somebody else holds the lock, 76 if the lock was lost, 2 for wrong arguments, 1 for any other failure.
//
// Usage: go run ./samples/run FUNCTION -- COMMAND…
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"

	leasehold "github.com/leasehold/leasehold/clients/go"
)

const (
	exitBusy = 75
	exitLost = 76
)

func main() {
	if len(os.Args) < 4 || os.Args[2] != "--" {
		fmt.Fprintln(os.Stderr, "usage: run FUNCTION -- COMMAND…")
		os.Exit(2)
	}
	code, err := run(os.Args[1], os.Args[3:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = exitCode(err)
	}
	os.Exit(code)
}

// exitCode gives the exit code for a command that did not end by itself.
func exitCode(err error) int {
	var busy *leasehold.BusyError
	var lost *leasehold.LostError
	switch {
	case errors.As(err, &busy):
		return exitBusy
	case errors.As(err, &lost):
		return exitLost
	default:
		return 1
	}
}

func run(function string, arguments []string) (code int, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// Signals are passed on to the command; before there is one, they end the wait.
	var group atomic.Int64
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for caught := range signals {
			if running := int(group.Load()); running != 0 {
				_ = syscall.Kill(-running, caught.(syscall.Signal))
			} else {
				cancel()
			}
		}
	}()

	client, err := leasehold.Connect(ctx)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	spec := leasehold.LeaseSpec{Key: leasehold.LockKey{Function: function}}
	err = client.WithHold(ctx, spec, func(ctx context.Context, hold *leasehold.Hold) error {
		code, err = execute(ctx, hold, arguments, &group)
		return err
	})
	return code, err
}

// execute runs a command until it ends or the context does, and gives its exit code.
func execute(
	ctx context.Context, hold *leasehold.Hold, arguments []string, group *atomic.Int64,
) (int, error) {
	// Where the platform can, the command is killed when the thread that started it ends, so that it does not outlive
	// the lock.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	command := exec.CommandContext(ctx, arguments[0], arguments[1:]...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.Env = append(os.Environ(),
		fmt.Sprintf("LEASEHOLD_FENCING_TOKEN=%d", hold.FencingToken()), "LEASEHOLD_LOCK_PATH="+hold.LockPath())
	command.SysProcAttr = groupOfItsOwn()
	// All that the command has started is killed with it.
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	if err := command.Start(); err != nil {
		return 0, err
	}
	group.Store(int64(command.Process.Pid))
	err := command.Wait()
	group.Store(0)
	var failed *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case errors.As(err, &failed):
		status, _ := failed.Sys().(syscall.WaitStatus)
		if status.Signaled() {
			return 128 + int(status.Signal()), nil
		}
		return failed.ExitCode(), nil
	default:
		return 0, err
	}
}
