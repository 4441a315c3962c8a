// Package fenced is a resource that refuses late writes: a row of a database keeps the fencing token of its last write.
package fenced

import (
	"context"
	"database/sql"
	"errors"
)

const update = "UPDATE report SET body = $1, fencing_token = $2 WHERE id = $3 AND fencing_token <= $2"

// ErrLate says that somebody else has acquired the lock since, and has written: stop.
var ErrLate = errors.New("a newer holder has written the report")

// Write replaces a report, unless a holder with a greater fencing token has written it.
func Write(ctx context.Context, db *sql.DB, id int, body string, fencingToken uint64) error {
	result, err := db.ExecContext(ctx, update, body, int64(fencingToken), id)
	if err != nil {
		return err
	}
	written, err := result.RowsAffected()
	if err == nil && written == 0 {
		err = ErrLate
	}
	return err
}
