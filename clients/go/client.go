package leasehold

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

const (
	// callTimeout bounds a call that asks no holder and waits for nothing.
	callTimeout = 30 * time.Second
	// releaseTimeout bounds a release, which may wait until the lease can no longer be valid (S13), at most one lease
	// duration.
	releaseTimeout = 90 * time.Second
)

// Client is two connections to a sidecar, one for holds, waits and watches, and one for short calls, so that a release
// never stands behind those. They are made again when they break. It is safe for use by several goroutines.
//
// A sidecar carries 256 calls at once on one connection unless it is configured otherwise (limits.streams_per_connection).
// A hold, an acquire or a watch beyond them waits for a place until another ends: take several clients for more.
type Client struct {
	// lasting is for calls that take as long as a hold or a wait.
	lasting *link
	// short is for calls that must go through at once, releases above all. It is made when the first one comes.
	short *link
	clock clock
	// ceiling is the longest wait that the sidecar was found to allow, in nanoseconds.
	ceiling atomic.Int64

	mutex  sync.Mutex
	closed bool
	holds  map[*holdState]struct{}
}

func newClient(lasting, short *grpc.ClientConn, endpoint string, clock clock) *Client {
	client := &Client{
		lasting: newLink(lasting, short, endpoint),
		short:   newLink(short, lasting, endpoint),
		clock:   clock,
		holds:   map[*holdState]struct{}{},
	}
	client.ceiling.Store(int64(longestWait))
	return client
}

// Close closes the connections. Holds that were not released are lost first (S13).
func (c *Client) Close() error {
	c.mutex.Lock()
	c.closed = true
	for hold := range c.holds {
		hold.lose(clientClosed())
	}
	c.mutex.Unlock()
	return cmp.Or(c.lasting.conn.Close(), c.short.conn.Close())
}

func clientClosed() *LostError { return &LostError{Detail: "the client was closed"} }

// remember lets Close find a hold; false if the client is closed already.
func (c *Client) remember(hold *holdState) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.holds[hold] = struct{}{}
	return !c.closed
}

func (c *Client) forget(hold *holdState) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.holds, hold)
}

// Acquire takes the lock by a unary call: the sidecar renews it until [Client.Release], MaxHold or shutdown, whether
// or not this process lives. Prefer [Client.WithLock].
//
// Errors: [*BusyError], [*RefusedError], [*UnreachableError], that of ctx.
func (c *Client) Acquire(ctx context.Context, spec LeaseSpec) (*leaseholdv1.Grant, error) {
	return waiting(c, spec.Wait, func(wait time.Duration) (*leaseholdv1.Grant, error) {
		request := &leaseholdv1.AcquireLeaseRequest{Spec: spec.wire(wait)}
		answer, err := call(ctx, c.lasting, min(wait, longestWait)+callTimeout, rpc.AcquireLease, request)
		if err != nil {
			return nil, err
		}
		switch outcome := answer.GetOutcome().(type) {
		case *leaseholdv1.AcquireLeaseResponse_Granted:
			return outcome.Granted, nil
		case *leaseholdv1.AcquireLeaseResponse_Busy:
			return nil, &BusyError{outcome.Busy}
		default:
			return nil, &ProtocolError{"an acquire was answered without an outcome"}
		}
	})
}

// waiting asks for a lock with a wait, or, to wait without end, with the longest wait again and again.
func waiting[T any](c *Client, wait time.Duration, ask func(time.Duration) (T, error)) (T, error) {
	if wait != Forever {
		return ask(wait)
	}
	for {
		longest := time.Duration(c.ceiling.Load())
		granted, err := ask(longest)
		var busy *BusyError
		var refused *RefusedError
		switch {
		case errors.As(err, &busy):
		case errors.As(err, &refused) && refused.onlyWait() && longest > time.Second:
			// The operator has set a lower ceiling, which is not told in a form for programs.
			c.ceiling.CompareAndSwap(int64(longest), int64(longest/2))
		default:
			return granted, err
		}
	}
}

// onlyWait is whether the wait was too long, and all else was right.
func (e *RefusedError) onlyWait() bool {
	return e.Reason == ReasonInvalidField && len(e.Violations) == 1 && e.Violations[0].Field == "spec.wait"
}

// Release releases a lock that [Client.Acquire] took, and waits until the store has it. Stop acting on the lock
// before calling this. It may be repeated. The outcome ALREADY_LOST says that somebody else may have had the lock before.
//
// Errors: [*RefusedError], with [ReasonUnknownLease] if the sidecar knows no such hold; [*UnreachableError]; that of ctx.
func (c *Client) Release(ctx context.Context, leaseID string) (*leaseholdv1.ReleaseResult, error) {
	return c.release(ctx, leaseID, 0)
}

// release carries the newest generation that was answered of a hold by stream (S16); 0 where there is none.
func (c *Client) release(
	ctx context.Context, leaseID string, generation uint64,
) (*leaseholdv1.ReleaseResult, error) {
	request := &leaseholdv1.ReleaseLeaseRequest{LeaseId: leaseID, Generation: generation}
	answer, err := call(ctx, c.short, releaseTimeout, rpc.ReleaseLease, request)
	if err != nil {
		return nil, err
	}
	if answer.GetResult() == nil {
		return nil, &ProtocolError{"a release was answered without a result"}
	}
	return answer.GetResult(), nil
}

// Extend sets a new bound of the hold, counted from now.
//
// Errors: [*RefusedError], with [ReasonHoldLost] if the hold is over; [*UnreachableError]; that of ctx.
func (c *Client) Extend(
	ctx context.Context, leaseID string, maxHold time.Duration,
) (*leaseholdv1.ExtendLeaseResponse, error) {
	return c.extend(ctx, leaseID, 0, maxHold)
}

func (c *Client) extend(
	ctx context.Context, leaseID string, generation uint64, maxHold time.Duration,
) (*leaseholdv1.ExtendLeaseResponse, error) {
	request := &leaseholdv1.ExtendLeaseRequest{
		LeaseId: leaseID, MaxHold: durationpb.New(maxHold), Generation: generation,
	}
	return call(ctx, c.short, callTimeout, rpc.ExtendLease, request)
}

// ReportProgress says that the holder is getting on, or with validityOnly just asks until when it may act.
//
// Errors: [*RefusedError], with [ReasonHoldLost] if the hold is over; [*UnreachableError]; that of ctx.
func (c *Client) ReportProgress(
	ctx context.Context, leaseID string, validityOnly bool,
) (*leaseholdv1.Validity, error) {
	return c.reportProgress(ctx, leaseID, 0, validityOnly)
}

func (c *Client) reportProgress(
	ctx context.Context, leaseID string, generation uint64, validityOnly bool,
) (*leaseholdv1.Validity, error) {
	request := &leaseholdv1.ReportProgressRequest{
		LeaseId: leaseID, ValidityOnly: validityOnly, Generation: generation,
	}
	answer, err := call(ctx, c.short, callTimeout, rpc.ReportProgress, request)
	if err != nil {
		return nil, err
	}
	if answer.GetValidity() == nil {
		return nil, &ProtocolError{"a report was answered without a validity"}
	}
	return answer.GetValidity(), nil
}

// GetLock tells the record of one lock. A lock that was never taken is available, and not an error.
func (c *Client) GetLock(ctx context.Context, lock Selector) (*leaseholdv1.LockRecord, error) {
	answer, err := call(ctx, c.short, callTimeout, rpc.GetLock, &leaseholdv1.GetLockRequest{Lock: lock.selector()})
	if err != nil {
		return nil, err
	}
	if answer.GetRecord() == nil {
		return nil, &ProtocolError{"a lock was told without its record"}
	}
	return answer.GetRecord(), nil
}

// Listing says which locks [Client.ListLocks] lists. The zero value: all under the sidecar's host id.
type Listing struct {
	// HostID lists those under this host id, in the sidecar's container and prefix.
	HostID string
	// Prefix lists those whose lock path begins with this text. HostID must be empty then.
	Prefix string
	// HeldOnly lists only those that somebody has.
	HeldOnly bool
	// PageSize is how many locks a call fetches at most: up to 250. Default: 100.
	PageSize uint32
}

// ListLocks lists the records of locks in the order of their paths, page after page. An error is the last that it
// yields.
func (c *Client) ListLocks(ctx context.Context, listing Listing) iter.Seq2[*leaseholdv1.LockRecord, error] {
	return func(yield func(*leaseholdv1.LockRecord, error) bool) {
		request := &leaseholdv1.ListLocksRequest{HeldOnly: listing.HeldOnly, PageSize: listing.PageSize}
		switch {
		case listing.HostID != "" && listing.Prefix != "":
			yield(nil, errors.New("locks are listed by host id or by prefix, not by both"))
			return
		case listing.HostID != "":
			request.Under = &leaseholdv1.ListLocksRequest_HostId{HostId: listing.HostID}
		case listing.Prefix != "":
			request.Under = &leaseholdv1.ListLocksRequest_Prefix{Prefix: listing.Prefix}
		}
		for {
			page, err := call(ctx, c.short, callTimeout, rpc.ListLocks, request)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, record := range page.GetRecords() {
				if !yield(record, nil) {
					return
				}
			}
			request.PageToken = page.GetNextPageToken()
			if request.PageToken == "" {
				return
			}
		}
	}
}

// WatchLock tells the record of a lock now and at each change, until ctx ends or the loop is left. For people and
// schedulers: it excludes nobody. An error is the last that it yields: watch again.
func (c *Client) WatchLock(ctx context.Context, lock Selector) iter.Seq2[*leaseholdv1.LockRecord, error] {
	return func(yield func(*leaseholdv1.LockRecord, error) bool) {
		within, cancel := context.WithCancel(ctx)
		defer cancel()
		c.lasting.wake(within)
		stream, err := c.lasting.WatchLock(within, &leaseholdv1.WatchLockRequest{Lock: lock.selector()})
		for err == nil {
			var answer *leaseholdv1.WatchLockResponse
			answer, err = stream.Recv()
			if record := answer.GetRecord(); err == nil && record != nil && !yield(record, nil) {
				return
			}
		}
		if err != io.EOF {
			yield(nil, c.lasting.failure(ctx, err))
		}
	}
}

// CheckToken says what a fencing token is, compared with the newest of its lock. For a protected resource that keeps
// no tokens of its own.
func (c *Client) CheckToken(
	ctx context.Context, lock Selector, fencingToken uint64,
) (*leaseholdv1.CheckTokenResponse, error) {
	request := &leaseholdv1.CheckTokenRequest{Lock: lock.selector(), FencingToken: fencingToken}
	return call(ctx, c.short, callTimeout, rpc.CheckToken, request)
}

// Break says how [Client.BreakLock] ends the lease of a lock.
type Break struct {
	// Reason is why, for the holder and for those who come later: 1 to 512 bytes. Needed.
	Reason string
	// Now ends the lease at once: TWO HOLDERS ARE POSSIBLE until the old one notices. Default: it runs out, which is safe.
	Now bool
	// By is who breaks it. Default: the name of the sidecar's pod or host.
	By string
}

// BreakLock ends the lease of a lock that somebody else has (S17). For operators.
//
// Errors: [*RefusedError], with [ReasonBreakNotEnabled] unless the operator enabled it; [*UnreachableError]; that of ctx.
func (c *Client) BreakLock(
	ctx context.Context, lock Selector, how Break,
) (*leaseholdv1.BreakLockResponse, error) {
	request := &leaseholdv1.BreakLockRequest{
		Lock: lock.selector(), Reason: how.Reason, BrokenBy: how.By, Mode: leaseholdv1.BreakMode_BREAK_MODE_RUN_OUT,
	}
	if how.Now {
		request.Mode = leaseholdv1.BreakMode_BREAK_MODE_NOW
	}
	return call(ctx, c.short, callTimeout, rpc.BreakLock, request)
}

// ResolvePath tells the lock path of a key and how it came about. It takes nothing.
func (c *Client) ResolvePath(ctx context.Context, key LockKey) (*leaseholdv1.ResolvePathResponse, error) {
	return call(ctx, c.short, callTimeout, rpc.ResolvePath, &leaseholdv1.ResolvePathRequest{Key: key.wire()})
}
