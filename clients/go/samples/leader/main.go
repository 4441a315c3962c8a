// Leader works for as long as it leads, and stands by otherwise, until Ctrl-C.
//
// Usage: go run ./samples/leader [FUNCTION]
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	leasehold "github.com/leasehold/leasehold/clients/go"
)

func main() {
	key := leasehold.LockKey{Function: "leader"}
	if len(os.Args) > 1 {
		key.Function = os.Args[1]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := lead(ctx, key); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func lead(ctx context.Context, key leasehold.LockKey) error {
	client, err := leasehold.Connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Lead(ctx, leasehold.LeaseSpec{Key: key}, func(ctx context.Context, term *leasehold.Hold) error {
		fmt.Println("leading with token", term.FencingToken())
		<-ctx.Done()
		fmt.Println("not leading any more:", context.Cause(ctx))
		return context.Cause(ctx)
	})
}
