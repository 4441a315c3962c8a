// Package queue is a queue in a table: a fetched message is invisible for a while, and comes back unless it is deleted.
package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Queue is the queue. Any number of workers may use it at the same time.
type Queue struct {
	// Pool leads to the database with the table message.
	Pool *pgxpool.Pool
	// Invisible is how long a fetched message is hidden from other workers.
	Invisible time.Duration
}

// Message says that a job is to be done.
type Message struct {
	ID    int64
	JobID uuid.UUID
}

// SKIP LOCKED: workers that fetch at the same moment get different messages, and none waits for another.
const fetch = `
UPDATE message SET visible_at = now() + $1
 WHERE id = (SELECT id FROM message WHERE visible_at <= now()
              ORDER BY visible_at FOR UPDATE SKIP LOCKED LIMIT 1)
RETURNING id, job_id`

// Fetch gives the message that has been visible for the longest time and hides it; false if none is visible.
func (q *Queue) Fetch(ctx context.Context) (Message, bool, error) {
	var message Message
	err := q.Pool.QueryRow(ctx, fetch, q.Invisible).Scan(&message.ID, &message.JobID)
	if errors.Is(err, pgx.ErrNoRows) {
		return Message{}, false, nil
	}
	if err != nil {
		return Message{}, false, fmt.Errorf("fetch a message: %w", err)
	}
	return message, true, nil
}

// Hide hides a message for a while from now on; 0 shows it at once.
func (q *Queue) Hide(ctx context.Context, message Message, while time.Duration) error {
	const hide = `UPDATE message SET visible_at = now() + $2 WHERE id = $1`
	if _, err := q.Pool.Exec(ctx, hide, message.ID, while); err != nil {
		return fmt.Errorf("hide the message of job %s: %w", message.JobID, err)
	}
	return nil
}

// Delete deletes a message, also if it is gone already.
func (q *Queue) Delete(ctx context.Context, message Message) error {
	if _, err := q.Pool.Exec(ctx, `DELETE FROM message WHERE id = $1`, message.ID); err != nil {
		return fmt.Errorf("delete the message of job %s: %w", message.JobID, err)
	}
	return nil
}
