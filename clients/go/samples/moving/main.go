// Command moving is what docs/moving.md shows: work that one replica does at a time.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	leasehold "github.com/leasehold/leasehold/clients/go"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := lead(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func lead(ctx context.Context) error {
	client, err := leasehold.Connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	spec := leasehold.LeaseSpec{Key: leasehold.LockKey{Function: "controller"}, Wait: leasehold.Forever}
	return client.WithHold(ctx, spec, func(ctx context.Context, hold *leasehold.Hold) error {
		return work(ctx, hold.FencingToken())
	})
}

func work(ctx context.Context, fencingToken uint64) error {
	fmt.Println("working with token", fencingToken)
	select {
	case <-time.After(time.Minute):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
