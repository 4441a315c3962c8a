package fenced

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
)

// A row of the table, as a database of this one statement. No database is part of Go, and this module needs none.
type row struct {
	body         string
	fencingToken int64
}

func (r *row) Connect(context.Context) (driver.Conn, error) { return r, nil }
func (r *row) Driver() driver.Driver                        { return nil }
func (r *row) Begin() (driver.Tx, error)                    { return nil, errors.ErrUnsupported }
func (r *row) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }
func (r *row) Close() error                                 { return nil }

func (r *row) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	fencingToken, isNumber := args[1].Value.(int64)
	if query != update || !isNumber || args[2].Value != int64(1) {
		return nil, errors.ErrUnsupported
	}
	if fencingToken < r.fencingToken {
		return driver.RowsAffected(0), nil
	}
	*r = row{args[0].Value.(string), fencingToken}
	return driver.RowsAffected(1), nil
}

func TestS5AWriteWithASmallerTokenIsRefused(t *testing.T) {
	var report row
	db := sql.OpenDB(&report)
	defer db.Close()
	for _, one := range []struct {
		body         string
		fencingToken uint64
		want         error
	}{
		{"of the first", 7, nil}, {"again", 7, nil}, {"of the second", 9, nil}, {"late", 7, ErrLate},
	} {
		if err := Write(t.Context(), db, 1, one.body, one.fencingToken); !errors.Is(err, one.want) {
			t.Error(one.body, err)
		}
	}
	if report != (row{"of the second", 9}) {
		t.Error(report)
	}
}
