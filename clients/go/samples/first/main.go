// First holds a lock while a function runs.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	leasehold "github.com/leasehold/leasehold/clients/go"
)

func main() {
	ctx := context.Background()
	client, err := leasehold.Connect(ctx)
	if err != nil {
		log.Fatal(err)
	}
	spec := leasehold.LeaseSpec{Key: leasehold.LockKey{Function: "nightly-report"}, Wait: 30 * time.Second}
	if err := client.WithHold(ctx, spec, writeReport); err != nil {
		log.Fatal(err)
	}
	client.Close()
}

// writeReport stands for the work. Its context is cancelled when the lock is lost.
func writeReport(ctx context.Context, hold *leasehold.Hold) error {
	fmt.Println("writing the report with token", hold.FencingToken())
	return ctx.Err()
}
