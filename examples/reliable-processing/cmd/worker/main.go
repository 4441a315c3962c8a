// Worker does the jobs of the queue until it is told to end.
//
// It reads JOBS_URL, ARCHIVE_URL, INVISIBLE (such as 30s) and LEASEHOLD_ENDPOINT.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	leasehold "github.com/leasehold/leasehold/clients/go"
	"github.com/leasehold/leasehold/examples/reliable-processing/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	locks, err := leasehold.Connect(ctx)
	if err != nil {
		return err
	}
	defer locks.Close()
	w, closeAll, err := worker.FromEnvironment(ctx)
	if err != nil {
		return err
	}
	defer closeAll()
	w.Locks = locks
	w.Run(ctx)
	return nil
}
