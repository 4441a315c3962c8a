// Package archive stands for the world outside of the jobs' database: it shares no transaction with it.
package archive

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrLate says that a later holder of the lock has written already.
var ErrLate = errors.New("the archive has seen a greater fencing token")

// Archive keeps one document for each job.
type Archive struct {
	// Pool leads to the archive's own database.
	Pool *pgxpool.Pool
}

const put = `
INSERT INTO document (job_id, body, fencing_token) VALUES ($1, $2, $3)
    ON CONFLICT (job_id) DO UPDATE SET body = excluded.body, fencing_token = excluded.fencing_token
 WHERE document.fencing_token <= excluded.fencing_token`

// Put stores the document of a job in place of any that was made before.
//
// Errors: [ErrLate], that of the database.
func (a *Archive) Put(ctx context.Context, jobID uuid.UUID, body string, token uint64) error {
	changed, err := a.Pool.Exec(ctx, put, jobID, body, token)
	if err == nil && changed.RowsAffected() == 0 {
		err = ErrLate
	}
	if err != nil {
		return fmt.Errorf("archive the document of job %s: %w", jobID, err)
	}
	return nil
}
