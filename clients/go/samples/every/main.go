// Nightly runs a job at each occurrence of a schedule, in one of the processes that run this, until Ctrl-C.
//
// Usage: go run ./samples/every [CRON]
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	leasehold "github.com/leasehold/leasehold/clients/go"
)

func main() {
	cron := "30 2 * * *"
	if len(os.Args) > 1 {
		cron = os.Args[1]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := nightly(ctx, cron); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func nightly(ctx context.Context, cron string) error {
	client, err := leasehold.Connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	key := leasehold.LockKey{Function: "nightly"}
	spec := leasehold.ScheduleSpec{Key: key, Cron: cron, TimeZone: "Europe/Copenhagen"}
	return client.Every(ctx, spec, func(ctx context.Context, run *leasehold.Run) error {
		return report(ctx, run.ScheduledAt())
	})
}

func report(ctx context.Context, of time.Time) error {
	fmt.Println("reporting of", of)
	return ctx.Err()
}
