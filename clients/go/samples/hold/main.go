// Hold holds a lock until Ctrl-C, and says what happens to it.
//
// Usage: go run ./samples/hold FUNCTION [SCOPE]
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	leasehold "github.com/leasehold/leasehold/clients/go"
)

func main() {
	if len(os.Args) < 2 || len(os.Args) > 3 {
		fmt.Fprintln(os.Stderr, "usage: hold FUNCTION [SCOPE]")
		os.Exit(2)
	}
	key := leasehold.LockKey{Function: os.Args[1]}
	if len(os.Args) == 3 {
		key.Scope = os.Args[2]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := hold(ctx, key); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func hold(ctx context.Context, key leasehold.LockKey) error {
	client, err := leasehold.Connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	spec := leasehold.LeaseSpec{Key: key, Wait: time.Minute, OnEvent: show}
	return client.WithHold(ctx, spec, func(ctx context.Context, hold *leasehold.Hold) error {
		return work(ctx, hold)
	})
}

// work goes on until Ctrl-C or the loss of the lock ends its context.
func work(ctx context.Context, hold *leasehold.Hold) error {
	fmt.Printf("holding %s, token %d, for %v unless renewed\n", hold.LockPath(), hold.FencingToken(), hold.Remaining())
	<-ctx.Done()
	if loss := hold.Loss(); loss != nil {
		return loss
	}
	fmt.Println("releasing it")
	return nil
}

func show(event leasehold.HoldEvent) {
	switch event := event.(type) {
	case leasehold.Waiting:
		fmt.Printf("waiting, place %d: %q holds it\n", event.Position, event.Record.Holder)
	case leasehold.AtRisk:
		fmt.Printf("at risk: %s: %s\n", event.Cause, event.Detail)
	default:
		fmt.Printf("%T\n", event)
	}
}
