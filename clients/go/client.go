package leasehold

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// Client talks to one sidecar. It opens as many connections as its holds, waits and watches need, makes them again when
// they break, and has one more for calls that concern none of those. It is safe for use by several goroutines.
type Client struct {
	pool           *pool
	clock          clock
	releaseTimeout time.Duration
	// random is between 0 and 1, by chance or as a test wants.
	random func() float64

	mutex  sync.Mutex
	closed bool
	holds  map[*Hold]struct{}
	// endings are the releases and completions under way: each is closed when it is over.
	endings map[chan struct{}]struct{}
}

func newClient(pool *pool, clock clock, releaseTimeout time.Duration) *Client {
	return &Client{
		pool: pool, clock: clock, releaseTimeout: releaseTimeout, random: rand.Float64, holds: map[*Hold]struct{}{},
		endings: map[chan struct{}]struct{}{},
	}
}

// Close releases the holds that were not released, and closes the connections. Those holds are lost first (S13). For the
// releases, and those and the completions that are under way already, it waits as long as [WithReleaseTimeout] says.
//
// Errors: [*ReleaseUnconfirmedError] and [*LostError], as [Hold.Release] gives them, of the holds that it released.
func (c *Client) Close() error {
	c.mutex.Lock()
	holds := slices.Collect(maps.Keys(c.holds))
	wasClosed := c.closed
	c.closed = true
	c.mutex.Unlock()
	if wasClosed {
		return nil
	}
	within, cancel := c.releaseContext(context.Background())
	defer cancel()
	errs := make([]error, len(holds)+1)
	var releasing sync.WaitGroup
	for i, hold := range holds {
		releasing.Go(func() { errs[i] = hold.abandon(context.Background()) })
	}
	releasing.Wait()
	c.awaitEndings(within)
	errs[len(holds)] = c.pool.close()
	return errors.Join(errs...)
}

// beginEnding has Close wait for a release or a completion, until what it gives is called.
func (c *Client) beginEnding() (isOver func()) {
	over := make(chan struct{})
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.endings[over] = struct{}{}
	return func() {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		delete(c.endings, over)
		close(over)
	}
}

// awaitEndings waits for the releases and completions under way.
func (c *Client) awaitEndings(ctx context.Context) {
	c.mutex.Lock()
	endings := slices.Collect(maps.Keys(c.endings))
	c.mutex.Unlock()
	for _, over := range endings {
		select {
		case <-over:
		case <-ctx.Done():
		}
	}
}

func clientClosed() *LostError {
	return &LostError{Reason: LossReasonUnspecified, Detail: ErrClosed.Error()}
}

// remember lets Close find a hold; false if the client is closed already.
func (c *Client) remember(hold *Hold) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.holds[hold] = struct{}{}
	return !c.closed
}

func (c *Client) forget(hold *Hold) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.holds, hold)
}

// holdID names a hold in the calls about it.
type holdID struct {
	leaseID string
	// generation is the newest that was answered; 0 of a hold that is known by its lease id only (S16).
	generation uint64
	place      *place
}

// named is the id of a hold that is known by its lease id only.
func (c *Client) named(leaseID string) holdID {
	return holdID{leaseID: leaseID, place: c.pool.placeOf(leaseID)}
}

// releaseContext bounds a release.
func (c *Client) releaseContext(ctx context.Context) (context.Context, context.CancelFunc) {
	late := fmt.Errorf("the sidecar did not answer within %v", c.releaseTimeout)
	return context.WithTimeoutCause(ctx, c.releaseTimeout, late)
}

// Acquire takes the lock by a unary call: the sidecar renews it until [Client.Release], MaxHold or shutdown, whether
// or not this process lives. Prefer [Client.WithHold].
//
// Errors: [*BusyError], [*OccurrenceOverError], [*RefusedError], with [ReasonUnsupported] if the sidecar is too old for
// what is asked; [*UnreachableError], [*ProtocolError], [ErrClosed], that of ctx.
func (c *Client) Acquire(ctx context.Context, spec LeaseSpec) (Grant, error) {
	// The call itself is made once: one of which nothing is known may have been granted.
	waited := c.pool.awaitSidecar(ctx, spec.Wait)
	if spec.Wait != Forever {
		return c.acquire(ctx, spec.wire(max(spec.Wait-waited, 0)))
	}
	for {
		info, err := c.GetServerInfo(ctx)
		if err != nil {
			return Grant{}, err
		}
		grant, err := c.acquire(ctx, spec.wire(max(info.Limits.Wait, time.Second)))
		var busy *BusyError
		if !errors.As(err, &busy) {
			return grant, err
		}
	}
}

// acquire tries on while its wait lasts where the sidecar is too old, as another one may take its place (S37).
func (c *Client) acquire(ctx context.Context, spec *leaseholdv1.LeaseSpec) (Grant, error) {
	until := time.Now().Add(spec.GetWait().AsDuration())
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		grant, err := c.acquireOnce(ctx, spec)
		if !isBelowNeeds(err) || time.Until(until) <= pause {
			return grant, err
		}
		select {
		case <-ctx.Done():
			return Grant{}, gaveUp(ctx)
		case <-time.After(pause):
		}
		spec.Wait = wireDuration(max(time.Until(until), time.Millisecond))
	}
}

func (c *Client) acquireOnce(ctx context.Context, spec *leaseholdv1.LeaseSpec) (Grant, error) {
	patience := min(spec.GetWait().AsDuration(), longestWait) + callTimeout
	request := &leaseholdv1.AcquireLeaseRequest{Spec: spec}
	request.Needs = needs(request)
	// The calls by its lease id are to meet the same sidecar: they go over the general connection, too, if it has room.
	connection, err := c.pool.take(1, c.pool.general)
	if err != nil {
		return Grant{}, err
	}
	answer, err := callOver(ctx, connection, patience, rpc.AcquireLease, request)
	if granted := answer.GetGranted(); granted != nil && connection != c.pool.general {
		c.pool.keep(granted.GetLeaseId(), connection, granted.GetMaxHoldEnds())
	} else {
		connection.leave()
	}
	if err != nil {
		return Grant{}, err
	}
	switch outcome := answer.GetOutcome().(type) {
	case *leaseholdv1.AcquireLeaseResponse_Granted:
		return grantFrom(outcome.Granted), nil
	case *leaseholdv1.AcquireLeaseResponse_Busy:
		return Grant{}, &BusyError{busyFrom(outcome.Busy)}
	case *leaseholdv1.AcquireLeaseResponse_AlreadyDone:
		return Grant{}, occurrenceDone(spec, outcome.AlreadyDone)
	case *leaseholdv1.AcquireLeaseResponse_Skipped:
		return Grant{}, occurrenceSkipped(spec, outcome.Skipped)
	default:
		return Grant{}, &ProtocolError{"an acquire was answered without an outcome"}
	}
}

// Release releases a lock that [Client.Acquire] took, and waits until the store has it, for as long as
// [WithReleaseTimeout] says. Stop acting on the lock before calling this. It may be repeated. The outcome ALREADY_LOST
// says that somebody else may have held the lock before. With [WithCheckpoint] and
// [WithOutcome] the result says what became of those.
//
// Errors: [*RefusedError], with [ReasonUnknownLease] if the sidecar knows no such hold; [*UnreachableError]; that of ctx,
// or of the time that is over. [*CheckpointNotSavedError], [*CheckpointUnknownError] and [*OutcomeNotRecordedError] beside a
// result: it was released, and the checkpoint was not saved, or perhaps not, or the outcome not recorded.
func (c *Client) Release(ctx context.Context, leaseID string, options ...ReleaseOption) (ReleaseResult, error) {
	with, err := releasingWith(options)
	if err != nil {
		return ReleaseResult{}, err
	}
	defer c.beginEnding()()
	within, cancel := c.releaseContext(ctx)
	defer cancel()
	wire, err := c.release(within, c.named(leaseID), with)
	var refused *RefusedError
	if err == nil || errors.As(err, &refused) && refused.Reason == ReasonUnknownLease {
		c.pool.forget(leaseID)
	}
	if err != nil {
		return ReleaseResult{}, err
	}
	result := resultFrom(wire, with)
	return result, result.incomplete()
}

// release carries the newest generation that was answered of a hold by stream (S16); 0 where there is none.
func (c *Client) release(
	ctx context.Context, id holdID, with releasing,
) (*leaseholdv1.ReleaseResult, error) {
	request := &leaseholdv1.ReleaseLeaseRequest{
		LeaseId: id.leaseID, Generation: id.generation, Checkpoint: with.checkpoint, Outcome: with.wireOutcome,
	}
	answer, err := callAbout(ctx, id, c.releaseTimeout, rpc.ReleaseLease, request)
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
// Errors: [*RefusedError], with [ReasonHoldLost] or [ReasonHoldReleased] if the hold is over; [*UnreachableError]; that
// of ctx.
func (c *Client) Extend(ctx context.Context, leaseID string, maxHold time.Duration) (Extension, error) {
	answer, err := c.extend(ctx, c.named(leaseID), maxHold)
	if err != nil {
		return Extension{}, err
	}
	c.pool.extended(leaseID, answer.GetMaxHoldEnds())
	return Extension{
		validityFrom(answer.GetValidity()), moment(answer.GetMaxHoldEndsAt()), deadlineFrom(answer.GetMaxHoldEnds()),
	}, nil
}

func (c *Client) extend(
	ctx context.Context, id holdID, maxHold time.Duration,
) (*leaseholdv1.ExtendLeaseResponse, error) {
	request := &leaseholdv1.ExtendLeaseRequest{
		LeaseId: id.leaseID, MaxHold: durationpb.New(maxHold), Generation: id.generation,
	}
	return callAbout(ctx, id, callTimeout, rpc.ExtendLease, request)
}

// ReportProgress says that the holder makes progress, which restarts ProgressTimeout (S11).
//
// Errors: [*RefusedError], with [ReasonHoldLost] or [ReasonHoldReleased] if the hold is over; [*UnreachableError]; that
// of ctx.
func (c *Client) ReportProgress(ctx context.Context, leaseID string) (Validity, error) {
	validity, err := c.reportProgress(ctx, c.named(leaseID))
	if err != nil {
		return Validity{}, err
	}
	return validityFrom(validity), nil
}

func (c *Client) reportProgress(
	ctx context.Context, id holdID,
) (*leaseholdv1.Validity, error) {
	request := &leaseholdv1.ReportProgressRequest{LeaseId: id.leaseID, Generation: id.generation}
	answer, err := callAbout(ctx, id, callTimeout, rpc.ReportProgress, request)
	if err != nil {
		return nil, err
	}
	if answer.GetValidity() == nil {
		return nil, &ProtocolError{"a report was answered without a validity"}
	}
	return answer.GetValidity(), nil
}
