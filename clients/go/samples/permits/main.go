// Permits crawls until Ctrl-C, as one of at most three.
//
// Usage: go run ./samples/permits [FUNCTION]
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	leasehold "github.com/leasehold/leasehold/clients/go"
)

func main() {
	key := leasehold.LockKey{Function: "crawl"}
	if len(os.Args) > 1 {
		key.Function = os.Args[1]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := crawl(ctx, key); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func crawl(ctx context.Context, key leasehold.LockKey) error {
	client, err := leasehold.Connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	spec := leasehold.LeaseSpec{Key: key, Permits: 3, Wait: leasehold.Forever}
	return client.WithHold(ctx, spec, func(ctx context.Context, hold *leasehold.Hold) error {
		fmt.Printf("crawling with permit %d, token %d\n", hold.Permit(), hold.FencingToken())
		<-ctx.Done() // the work, which stops when the permit is lost
		return context.Cause(ctx)
	})
}
