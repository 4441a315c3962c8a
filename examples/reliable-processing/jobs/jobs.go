// Package jobs keeps the state of jobs: queued, running, done.
package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	// ErrDone says that the job is done: only its message is left.
	ErrDone = errors.New("the job is done")
	// ErrLate says that a later holder of the lock has claimed the job.
	ErrLate = errors.New("the job was claimed with a greater fencing token")
)

// Job is a document to make.
type Job struct {
	ID    uuid.UUID
	Pages int
}

// Jobs is the table of jobs.
type Jobs struct {
	// Pool leads to the database with the tables job and message.
	Pool *pgxpool.Pool
}

// Submit stores a job and its message, both or neither.
func (j *Jobs) Submit(ctx context.Context, job Job) error {
	err := pgx.BeginFunc(ctx, j.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO job (id, pages) VALUES ($1, $2)`, job.ID, job.Pages); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO message (job_id) VALUES ($1)`, job.ID)
		return err
	})
	if err != nil {
		return fmt.Errorf("submit job %s: %w", job.ID, err)
	}
	return nil
}

const claim = `
UPDATE job SET state = 'running', claims = claims + 1, fencing_token = $2
 WHERE id = $1 AND state <> 'done' AND fencing_token < $2
RETURNING pages`

// Claim makes the job running under this token.
//
// Errors: [ErrDone], [ErrLate], that of the database.
func (j *Jobs) Claim(ctx context.Context, id uuid.UUID, token uint64) (Job, error) {
	job := Job{ID: id}
	err := j.Pool.QueryRow(ctx, claim, id, token).Scan(&job.Pages)
	if errors.Is(err, pgx.ErrNoRows) {
		err = j.whyNot(ctx, id)
	}
	if err != nil {
		return Job{}, fmt.Errorf("claim job %s: %w", id, err)
	}
	return job, nil
}

func (j *Jobs) whyNot(ctx context.Context, id uuid.UUID) error {
	var done bool
	err := j.Pool.QueryRow(ctx, `SELECT state = 'done' FROM job WHERE id = $1`, id).Scan(&done)
	switch {
	case err != nil:
		return err
	case done:
		return ErrDone
	default:
		return ErrLate
	}
}

const record = `
UPDATE job SET state = 'done', result = $3
 WHERE id = $1 AND state = 'running' AND fencing_token = $2`

// Record makes the job done, if no other claim has come since.
//
// Errors: [ErrLate], that of the database.
func (j *Jobs) Record(ctx context.Context, id uuid.UUID, token uint64, result string) error {
	changed, err := j.Pool.Exec(ctx, record, id, token, result)
	if err == nil && changed.RowsAffected() == 0 {
		err = ErrLate
	}
	if err != nil {
		return fmt.Errorf("record the result of job %s: %w", id, err)
	}
	return nil
}
