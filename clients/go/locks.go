package leasehold

import (
	"context"
	"errors"
	"fmt"
	"iter"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// GetLock gives the record of one lock. A lock that was never acquired is available, and not an error.
func (c *Client) GetLock(ctx context.Context, lock LockSelector) (LockRecord, error) {
	answer, err := call(ctx, c.pool, callTimeout, rpc.GetLock, &leaseholdv1.GetLockRequest{Lock: lock.selector()})
	if err != nil {
		return LockRecord{}, err
	}
	if answer.GetRecord() == nil {
		return LockRecord{}, &ProtocolError{"it has no record of the lock"}
	}
	return recordFrom(answer.GetRecord()), nil
}

// ListOptions says which locks [Client.ListLocks] lists. The zero value: all under the sidecar's host id.
type ListOptions struct {
	// HostID lists those under this host id, in the sidecar's container and prefix.
	HostID string
	// Prefix lists those whose lock path begins with this text. HostID must be empty then.
	Prefix string
	// States lists only those in one of these states. Default: all.
	States []LockState
	// Labels lists only those whose record has all of these labels, with these values. Default: all.
	Labels map[string]string
	// Share lists only those whose holder, or last holder, named this share. Default: all.
	Share string
	// PageSize is how many locks a call fetches at most: up to 250. Default: 100.
	PageSize uint32
}

// ListLocks lists the records of locks in the order of their paths, page after page. An error is the last that it
// yields.
func (c *Client) ListLocks(ctx context.Context, options ListOptions) iter.Seq2[LockRecord, error] {
	return func(yield func(LockRecord, error) bool) {
		request := &leaseholdv1.ListLocksRequest{PageSize: options.PageSize, Labels: options.Labels, Share: options.Share}
		for _, state := range options.States {
			number, known := leaseholdv1.LockState_value["LOCK_STATE_"+string(state)]
			if !known {
				yield(LockRecord{}, fmt.Errorf("%q is not the state of a lock", state))
				return
			}
			request.States = append(request.States, leaseholdv1.LockState(number))
		}
		switch {
		case options.HostID != "" && options.Prefix != "":
			yield(LockRecord{}, errors.New("locks are listed by host id or by prefix, not by both"))
			return
		case options.HostID != "":
			request.Under = &leaseholdv1.ListLocksRequest_HostId{HostId: options.HostID}
		case options.Prefix != "":
			request.Under = &leaseholdv1.ListLocksRequest_Prefix{Prefix: options.Prefix}
		}
		for {
			page, err := call(ctx, c.pool, callTimeout, rpc.ListLocks, request)
			if err != nil {
				yield(LockRecord{}, err)
				return
			}
			for _, record := range page.GetRecords() {
				if !yield(recordFrom(record), nil) {
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

// CheckToken says what a fencing token is, compared with the newest of its lock. For a protected resource that keeps
// no tokens of its own.
func (c *Client) CheckToken(ctx context.Context, lock LockSelector, fencingToken uint64) (TokenCheck, error) {
	request := &leaseholdv1.CheckTokenRequest{Lock: lock.selector(), FencingToken: fencingToken}
	answer, err := call(ctx, c.pool, callTimeout, rpc.CheckToken, request)
	if err != nil {
		return TokenCheck{}, err
	}
	status := tokenStatusFrom(answer.GetStatus())
	return TokenCheck{status, answer.GetNewestFencingToken()}, nil
}

// BreakOptions says how [Client.BreakLock] ends the lease of a lock.
type BreakOptions struct {
	// Reason is why, for the holder and for those who come later: 1 to 512 bytes. Needed.
	Reason string
	// Now ends the lease at once: TWO HOLDERS ARE POSSIBLE until the old one notices. Default: it runs out, which is safe.
	Now bool
	// By is who breaks it. Default: the name of the sidecar's pod or host.
	By string
	// FencingToken is the token of the grant to break, as [LockRecord] has shown it. Give it always: if that grant is over
	// by then, nothing is broken, and the error has [ReasonOtherHolder]. Default: the grant that the sidecar reads first.
	FencingToken uint64
}

// BreakLock ends the lease of a lock that somebody else holds (S17). For operators.
//
// Errors: [*RefusedError], with [ReasonBreakNotEnabled] unless the operator enabled it, and with [ReasonOtherHolder] if the
// lock has another holder by then; [*UnreachableError]; that of ctx.
func (c *Client) BreakLock(ctx context.Context, lock LockSelector, how BreakOptions) (BreakResult, error) {
	request := &leaseholdv1.BreakLockRequest{
		Lock: lock.selector(), Reason: how.Reason, BrokenBy: how.By, Mode: leaseholdv1.BreakMode_BREAK_MODE_RUN_OUT,
	}
	if how.FencingToken != 0 {
		request.FencingToken = &how.FencingToken
	}
	if how.Now {
		request.Mode = leaseholdv1.BreakMode_BREAK_MODE_NOW
	}
	answer, err := call(ctx, c.pool, callTimeout, rpc.BreakLock, request)
	if err != nil {
		return BreakResult{}, err
	}
	outcome := breakOutcomeFrom(answer.GetOutcome())
	return BreakResult{outcome, duration(answer.GetFreeIn()), recordFrom(answer.GetRecord())}, nil
}

// ResolvePath gives the lock path of a key, and where it comes from. It acquires nothing.
func (c *Client) ResolvePath(ctx context.Context, key LockKey) (ResolvedPath, error) {
	request := &leaseholdv1.ResolvePathRequest{Key: key.wire()}
	answer, err := call(ctx, c.pool, callTimeout, rpc.ResolvePath, request)
	if err != nil {
		return ResolvedPath{}, err
	}
	return ResolvedPath{
		answer.GetLockPath(), answer.GetHostId(), answer.GetHostType(), answer.GetProvider(), answer.GetLayout(),
	}, nil
}
