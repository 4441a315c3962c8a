package leasehold

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// WatchLock tells the record of a lock now and at each change, until ctx ends or the loop is left. For people and
// schedulers: it excludes nobody. A watch whose connection breaks goes on by itself; an error is the last that it
// yields: none could be opened, or none again for 90 s.
func (c *Client) WatchLock(ctx context.Context, lock Selector) iter.Seq2[LockRecord, error] {
	return func(yield func(LockRecord, error) bool) {
		watch := &watch{pool: c.pool, request: &leaseholdv1.WatchLockRequest{Lock: lock.selector()}}
		for pause := firstPause; ; pause = min(2*pause, nap) {
			heard, err := watch.follow(ctx, func(record *leaseholdv1.LockRecord) bool {
				return yield(recordFrom(record), nil)
			})
			if heard {
				pause = firstPause
				watch.broke = time.Now()
			}
			switch {
			case err == nil || errors.Is(err, io.EOF):
				return
			case ctx.Err() != nil:
				yield(LockRecord{}, gaveUp(ctx))
				return
			case !comesBack(err) || watch.last == nil || time.Since(watch.broke) > c.pool.silence:
				yield(LockRecord{}, watch.failure(ctx, err))
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	}
}

// watch is a watch over one stream after the other.
type watch struct {
	pool    *pool
	request *leaseholdv1.WatchLockRequest
	stream  *listening[leaseholdv1.WatchLockResponse]
	// last is the record that was told last; nil if none was.
	last *leaseholdv1.LockRecord
	// broke is when the last stream ended over which something was heard.
	broke time.Time
}

// follow tells the records of one stream, and says whether it heard any. The error is nil if nobody listens any more.
func (w *watch) follow(
	ctx context.Context, tell func(*leaseholdv1.LockRecord) bool,
) (heard bool, err error) {
	w.stream, err = listen(ctx, w.pool, w.last != nil, rpc.WatchLock, w.request)
	if err != nil {
		return false, err
	}
	defer w.stream.cancel()
	for {
		answer, err := w.stream.next()
		if err != nil {
			return heard, err
		}
		heard = true
		record := answer.GetRecord()
		// The sidecar repeats the last record, so that a dead connection is noticed.
		if record == nil || proto.Equal(record, w.last) {
			continue
		}
		w.last = record
		if !tell(record) {
			return heard, nil
		}
	}
}

func (w *watch) failure(ctx context.Context, err error) error {
	if w.stream == nil {
		return err
	}
	return w.stream.connection.failure(ctx, err)
}
