package leasehold

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// WithLock takes a lock, runs work under it, and gives it back however work ends: by returning, by a panic, or by
// runtime.Goexit.
//
// The context of work is cancelled when the lock is lost, with the [*LostError] as its cause, and when ctx is. Work
// must end soon then: past the end of validity somebody else may have the lock.
//
// Errors: [*BusyError] if the lock was not to be had, and what [Client.Hold] gives; then work was not run. After that
// the error of work, joined with a [*LostError] if the lock was lost before work had ended, or with a [*ReleaseError]
// if it is not known whether the lock was given back.
func (c *Client) WithLock(
	ctx context.Context, spec LeaseSpec, work func(ctx context.Context, hold *Hold) error,
) (err error) {
	hold, err := c.Hold(ctx, spec)
	if err != nil {
		return err
	}
	defer func() {
		// What becomes of the lock concerns the next holder too, so ctx does not cut the release short.
		result, releaseErr := hold.Release(context.WithoutCancel(ctx))
		loss := hold.Loss()
		switch {
		case loss != nil && !errors.Is(err, loss):
			err = errors.Join(err, loss)
		case releaseErr != nil:
			err = errors.Join(err, &ReleaseError{releaseErr})
		case result.GetOutcome() == leaseholdv1.ReleaseOutcome_RELEASE_OUTCOME_ALREADY_LOST && loss == nil:
			// It was lost after the last word of it had come: the release is the first to tell.
			err = errors.Join(err, alreadyLost(result))
		}
	}()
	return work(hold.Context(), hold)
}

// Hold takes a lock and keeps it until [Hold.Release]; a defer of that should follow. Prefer [Client.WithLock].
//
// Cancelling ctx ends the wait. After the grant it ends the hold's context, and the lock is still to be released.
//
// Errors: [*BusyError] if the lock was not to be had within the wait, [*LostError] if the grant was over before it
// could be used, [*RefusedError], [*UnreachableError], [*ProtocolError], that of ctx.
func (c *Client) Hold(ctx context.Context, spec LeaseSpec) (*Hold, error) {
	events := &eventQueue{handler: spec.OnEvent}
	return waiting(c, spec.Wait, func(wait time.Duration) (*Hold, error) {
		return open(ctx, c, spec.wire(wait), events)
	})
}

// Hold is a lock that is held. It is safe for use by several goroutines.
//
// What it says is right also after the process, or the machine, was stopped and goes on: each question reads the boot
// clock. Between the question and the deed the process may be stopped again, so let protected resources check
// [Hold.FencingToken].
type Hold struct {
	client *Client
	grant  *leaseholdv1.Grant
	state  *holdState
	ctx    context.Context
	// endStream ends the stream and waits for its goroutine; called after the belief has ended (S13).
	endStream func()

	releasing sync.Mutex
	released  *leaseholdv1.ReleaseResult
}

// Context is cancelled when the hold is over: with the [*LostError] as its cause when it is lost (at the end of its
// validity, or a second after that where the machine slept), with [ErrReleased] when it is released. It is cancelled
// also when the context is that the lock was asked for with.
func (h *Hold) Context() context.Context { return h.ctx }

// FencingToken is greater than every token granted for this lock before: send it with each write, and let the
// resource refuse smaller ones than it has seen (S5). It is exact in a float64, too.
func (h *Hold) FencingToken() uint64 { return h.grant.GetFencingToken() }

// LockPath is the path of the lock.
func (h *Hold) LockPath() string { return h.grant.GetLockPath() }

// HostID is the host id in the path.
func (h *Hold) HostID() string { return h.grant.GetHostId() }

// LeaseID names this hold in calls of its own. Who knows it can end the hold, so do not log it.
func (h *Hold) LeaseID() string { return h.grant.GetLeaseId() }

// ValidUntil is the end of validity on this machine's boot clock, unless renewed. Past it the hold is lost, whether
// or not anything said so.
func (h *Hold) ValidUntil() BootInstant { return h.state.validUntil() }

// Remaining is the time left now; zero when the hold is over.
func (h *Hold) Remaining() time.Duration { return h.state.remaining() }

// Valid is whether the holder may act now. Once false, it stays false.
func (h *Hold) Valid() bool { return h.state.valid() }

// Loss is why the hold was lost; nil if it was not.
func (h *Hold) Loss() *LostError { return h.state.lost() }

// String shows the lock and the token, and none of the secrets (S20).
func (h *Hold) String() string {
	return fmt.Sprintf("hold of %s, token %d", h.LockPath(), h.FencingToken())
}

// GoString is String.
func (h *Hold) GoString() string { return h.String() }

// ReportProgress says that the job is getting on, which restarts ProgressTimeout (S11).
//
// Errors: [*RefusedError]; with [ReasonHoldLost] the hold is lost, too. [*UnreachableError]; that of ctx.
func (h *Hold) ReportProgress(ctx context.Context) error {
	sent := h.state.clock.now()
	validity, err := h.client.reportProgress(ctx, h.LeaseID(), h.state.answered(), false)
	return h.heard(validity, err, sent)
}

// Extend sets a new MaxHold, counted from now.
//
// Errors: as [Hold.ReportProgress].
func (h *Hold) Extend(ctx context.Context, maxHold time.Duration) error {
	sent := h.state.clock.now()
	answer, err := h.client.extend(ctx, h.LeaseID(), h.state.answered(), maxHold)
	if err == nil && answer.GetValidity() == nil {
		err = &ProtocolError{"an extension was answered without a validity"}
	}
	h.state.replaceResumeToken(answer.GetResumeToken())
	return h.heard(answer.GetValidity(), err, sent)
}

// releasable is the generation to release: where a resume is under way, the one that it is answered with, if that comes
// while the lease can still be this hold's (S16).
func (h *Hold) releasable(ctx context.Context) (uint64, *LostError, error) {
	until := h.state.validUntil()
	for {
		generation, answered, refused := h.state.releasable()
		if answered || refused != nil {
			return generation, refused, nil
		}
		if h.state.clock.now() >= until {
			return 0, nil, ErrNotReleased
		}
		select {
		case <-ctx.Done():
			return 0, nil, gaveUp(ctx)
		case <-time.After(answerPoll):
		}
	}
}

func (h *Hold) heard(validity *leaseholdv1.Validity, err error, sent BootInstant) error {
	if err == nil {
		h.state.takeIn(validity, &sent)
		return nil
	}
	if loss := toldLost(err); loss != nil {
		h.state.lose(loss)
	}
	return err
}

// Release gives the lock back and waits until the store has it. The hold is not valid from the first moment of this
// call on (S13), so stop acting before. Releasing what is lost already says so and is no error; a repeated release
// gives the first one's result.
//
// The outcome ALREADY_LOST says that the hold was lost before, so that somebody else may have had the lock, also where
// the release is the first to find it.
//
// Errors: [*RefusedError], [*UnreachableError], that of ctx: whether the lock was released is not known.
// [ErrNotReleased]: it was not. The stream is ended all the same, and the lock is available when the sidecar learns of
// that, or the lease runs out.
func (h *Hold) Release(ctx context.Context) (*leaseholdv1.ReleaseResult, error) {
	loss := h.state.end()
	h.releasing.Lock()
	defer h.releasing.Unlock()
	if h.released != nil {
		return h.released, nil
	}
	defer h.endStream()
	if loss != nil {
		h.released = &leaseholdv1.ReleaseResult{
			Outcome:    leaseholdv1.ReleaseOutcome_RELEASE_OUTCOME_ALREADY_LOST,
			LossReason: loss.Reason,
		}
		return h.released, nil
	}
	generation, refused, err := h.releasable(ctx)
	if refused != nil {
		h.released = &leaseholdv1.ReleaseResult{
			Outcome:    leaseholdv1.ReleaseOutcome_RELEASE_OUTCOME_ALREADY_LOST,
			LossReason: refused.Reason,
		}
		return h.released, nil
	}
	if err != nil {
		return nil, err
	}
	result, err := h.client.release(ctx, h.LeaseID(), generation)
	h.released = result
	return result, err
}
