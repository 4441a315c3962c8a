package worker

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold/leasehold/examples/reliable-processing/archive"
	"github.com/leasehold/leasehold/examples/reliable-processing/jobs"
	"github.com/leasehold/leasehold/examples/reliable-processing/queue"
)

// FromEnvironment gives a worker without its locks, for the databases JOBS_URL and ARCHIVE_URL and the time-out INVISIBLE, and
// what closes its connections.
func FromEnvironment(ctx context.Context) (*Worker, func(), error) {
	invisible, err := time.ParseDuration(os.Getenv("INVISIBLE"))
	if err != nil {
		return nil, nil, fmt.Errorf("INVISIBLE, such as 30s: %w", err)
	}
	own, err := pgxpool.New(ctx, os.Getenv("JOBS_URL"))
	if err != nil {
		return nil, nil, fmt.Errorf("JOBS_URL: %w", err)
	}
	elsewhere, err := pgxpool.New(ctx, os.Getenv("ARCHIVE_URL"))
	if err != nil {
		own.Close()
		return nil, nil, fmt.Errorf("ARCHIVE_URL: %w", err)
	}
	w := &Worker{
		Queue:   &queue.Queue{Pool: own, Invisible: invisible},
		Jobs:    &jobs.Jobs{Pool: own},
		Archive: &archive.Archive{Pool: elsewhere},
	}
	return w, func() { own.Close(); elsewhere.Close() }, nil
}
