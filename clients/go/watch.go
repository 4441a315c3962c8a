package leasehold

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// WatchLock tells the record of a lock now and at each change, until ctx ends or the loop is left. For people and
// schedulers: it excludes nobody. A watch whose connection breaks goes on by itself; an error is the last that it
// yields: none could be opened, or none again for 90 s.
func (c *Client) WatchLock(ctx context.Context, lock LockSelector) iter.Seq2[LockRecord, error] {
	return func(yield func(LockRecord, error) bool) {
		var last *leaseholdv1.LockRecord
		watch := &watch[leaseholdv1.WatchLockRequest, leaseholdv1.WatchLockResponse]{
			pool: c.pool, method: rpc.WatchLock, request: &leaseholdv1.WatchLockRequest{Lock: lock.selector()},
			begin: func() {},
			tell: func(answer *leaseholdv1.WatchLockResponse) bool {
				record := answer.GetRecord()
				// The sidecar repeats the last record, so that a dead connection is noticed.
				if record == nil || proto.Equal(record, last) {
					return true
				}
				last = record
				return yield(recordFrom(record), nil)
			},
		}
		if err := watch.run(ctx); err != nil {
			yield(LockRecord{}, err)
		}
	}
}

// watch is a watch over one stream after the other.
type watch[Q, A any] struct {
	pool    *pool
	method  func(rpc, context.Context, *Q, ...grpc.CallOption) (grpc.ServerStreamingClient[A], error)
	request *Q
	// begin is called before the first answer of each stream, and tell with each answer; false leaves the watch.
	begin func()
	tell  func(*A) bool

	stream *listening[A]
	// heard is whether anything was ever heard, and broke when the last stream ended over which something was.
	heard bool
	broke time.Time
}

// run watches until it is left, and gives nil then, or the error that ended it.
func (w *watch[Q, A]) run(ctx context.Context) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		heard, err := w.follow(ctx)
		if heard {
			pause, w.broke = firstPause, time.Now()
		}
		switch {
		case err == nil || errors.Is(err, io.EOF):
			return nil
		case ctx.Err() != nil:
			return gaveUp(ctx)
		case !comesBack(err) || !w.heard || time.Since(w.broke) > silence:
			return w.failure(ctx, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// follow tells the answers of one stream, and says whether it heard any. The error is nil if nobody listens any more.
func (w *watch[Q, A]) follow(ctx context.Context) (heard bool, err error) {
	connection, err := w.pool.take(1)
	if err != nil {
		w.stream = nil
		return false, err
	}
	w.stream = listen(ctx, connection, w.heard, w.method, w.request)
	defer w.stream.cancel()
	w.begin()
	for {
		answer, err := w.stream.next()
		if err != nil {
			return heard, err
		}
		heard, w.heard = true, true
		if !w.tell(answer) {
			return heard, nil
		}
	}
}

func (w *watch[Q, A]) failure(ctx context.Context, err error) error {
	if w.stream == nil {
		return err
	}
	return w.stream.connection.failure(ctx, err)
}
