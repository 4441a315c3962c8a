// Package worker does the jobs of a queue: fetch, claim under the lock, perform, record the result, delete.
package worker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"

	leasehold "github.com/leasehold/leasehold/clients/go"
	"github.com/leasehold/leasehold/examples/reliable-processing/archive"
	"github.com/leasehold/leasehold/examples/reliable-processing/jobs"
	"github.com/leasehold/leasehold/examples/reliable-processing/queue"
	"github.com/leasehold/leasehold/examples/reliable-processing/tell"
)

const (
	// leaseDuration bounds how long a job waits whose machine has died.
	leaseDuration = 15 * time.Second
	// maxHold is longer than any job: one that hangs loses its lock then.
	maxHold = time.Hour
	// pageTime is how long a page takes.
	pageTime = 100 * time.Millisecond
	// idle is how long to wait when there is nothing to do, and after a failure.
	idle = 200 * time.Millisecond
)

// Worker does one job after the other.
type Worker struct {
	Queue   *queue.Queue
	Jobs    *jobs.Jobs
	Archive Archive
	Locks   *leasehold.Client
}

// Archive takes documents, and refuses those of a smaller token than it has seen: an [archive.Archive].
type Archive interface {
	Put(ctx context.Context, jobID uuid.UUID, body string, token uint64) error
}

// Lock is what the work asks its lock: a [leasehold.Hold].
type Lock interface {
	Valid() bool
	FencingToken() uint64
}

// Run does the jobs whose locks are free, until ctx ends.
func (w *Worker) Run(ctx context.Context) {
	w.Each(ctx, w.handle)
}

// Each fetches messages and handles them one by one, until ctx ends. A message that fails comes back by itself.
func (w *Worker) Each(ctx context.Context, handle func(ctx context.Context, message queue.Message) error) {
	for ctx.Err() == nil {
		message, found, err := w.Queue.Fetch(ctx)
		if found {
			tell.Reached(tell.Fetched, message.JobID, 0)
			err = handle(ctx, message)
		}
		if err != nil && ctx.Err() == nil {
			slog.Error("comes back later", "job", message.JobID, "error", err)
		}
		if errors.Is(err, archive.ErrLate) || errors.Is(err, jobs.ErrLate) {
			tell.Say(tell.Refused, message.JobID, 0)
		}
		if !found || err != nil {
			sleep(ctx, idle)
		}
	}
}

func (w *Worker) handle(ctx context.Context, message queue.Message) error {
	spec := leasehold.LeaseSpec{
		Key:           leasehold.LockKey{Function: "documents", Scope: message.JobID.String()},
		LeaseDuration: leaseDuration,
		MaxHold:       maxHold,
	}
	err := w.Locks.WithHold(ctx, spec, func(ctx context.Context, hold *leasehold.Hold) error {
		return w.Process(ctx, message, hold)
	})
	var busy *leasehold.BusyError
	switch {
	case errors.As(err, &busy):
		// The job runs elsewhere. Its message stays, in case that worker dies.
		tell.Say(tell.Busy, message.JobID, 0)
		return w.Queue.Hide(ctx, message, w.Queue.Invisible)
	case ctx.Err() != nil:
		// This worker is told to end: the next one need not wait.
		return errors.Join(err, w.Queue.Hide(context.WithoutCancel(ctx), message, 0))
	default:
		return err
	}
}

// Process does a job under its lock. Each step can be the last one of this process, and the next holder goes on from there.
func (w *Worker) Process(ctx context.Context, message queue.Message, lock Lock) error {
	token := lock.FencingToken()
	job, err := w.Jobs.Claim(ctx, message.JobID, token)
	if errors.Is(err, jobs.ErrDone) {
		// Who did it died before the last step.
		tell.Say(tell.FindsDone, message.JobID, token)
		return w.Queue.Delete(ctx, message)
	}
	if err != nil {
		return err
	}
	tell.Reached(tell.Claimed, job.ID, token)

	document, err := render(ctx, job, lock)
	if err != nil {
		return err
	}
	if err := w.Archive.Put(ctx, job.ID, document, token); err != nil {
		return err
	}
	tell.Reached(tell.Performed, job.ID, token)

	if err := w.Jobs.Record(ctx, job.ID, token, address(job.ID)); err != nil {
		return err
	}
	tell.Reached(tell.Recorded, job.ID, token)

	if err := w.Queue.Delete(ctx, message); err != nil {
		return err
	}
	tell.Reached(tell.Deleted, job.ID, token)
	return nil
}

// render makes the document, page by page, as long as the lock is held.
func render(ctx context.Context, job jobs.Job, lock Lock) (string, error) {
	var document strings.Builder
	for range job.Pages {
		if ctx.Err() != nil || !lock.Valid() {
			return "", context.Cause(ctx)
		}
		tell.Say(tell.Works, job.ID, lock.FencingToken())
		sleep(ctx, pageTime)
		document.WriteString("page\n")
	}
	return document.String(), nil
}

func address(jobID uuid.UUID) string {
	return "document/" + jobID.String()
}

func sleep(ctx context.Context, while time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(while):
	}
}
