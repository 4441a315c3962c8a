// Careless is the worker without what keeps it right, for the chaos test's controls.
//
// Usage: careless no-lock|no-token
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	leasehold "github.com/leasehold/leasehold/clients/go"
	"github.com/leasehold/leasehold/examples/reliable-processing/queue"
	"github.com/leasehold/leasehold/examples/reliable-processing/worker"
)

// noLock is always free. Its token is the time.
type noLock struct{ at time.Time }

func (noLock) Valid() bool { return true }

func (l noLock) FencingToken() uint64 { return uint64(l.at.UnixNano()) }

// trusting is an archive that compares no tokens.
type trusting struct{ pool *pgxpool.Pool }

const put = `
INSERT INTO document (job_id, body, fencing_token) VALUES ($1, $2, $3)
    ON CONFLICT (job_id) DO UPDATE SET body = excluded.body, fencing_token = excluded.fencing_token`

func (t trusting) Put(ctx context.Context, jobID uuid.UUID, body string, token uint64) error {
	_, err := t.pool.Exec(ctx, put, jobID, body, token)
	return err
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "careless:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	w, closeAll, err := worker.FromEnvironment(ctx)
	if err != nil {
		return err
	}
	defer closeAll()
	switch {
	case len(arguments) == 1 && arguments[0] == "no-lock":
		// It believes that a message that is hidden is reserved.
		w.Each(ctx, func(ctx context.Context, message queue.Message) error {
			return w.Process(ctx, message, noLock{time.Now()})
		})
		return nil
	case len(arguments) == 1 && arguments[0] == "no-token":
		return withoutToken(ctx, w)
	default:
		return errors.New("usage: careless no-lock|no-token")
	}
}

func withoutToken(ctx context.Context, w *worker.Worker) error {
	pool, err := pgxpool.New(ctx, os.Getenv("ARCHIVE_URL"))
	if err != nil {
		return fmt.Errorf("ARCHIVE_URL: %w", err)
	}
	defer pool.Close()
	locks, err := leasehold.Connect(ctx)
	if err != nil {
		return err
	}
	defer locks.Close()
	w.Archive, w.Locks = trusting{pool}, locks
	w.Run(ctx)
	return nil
}
