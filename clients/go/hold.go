package leasehold

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// WithHold takes a lock, runs work under it, and releases it however work ends: by returning, by a panic, or by
// runtime.Goexit.
//
// The context of work is cancelled when the lock is lost, with the [*LostError] as its cause, and when ctx is. Work
// must end soon then: past the end of validity somebody else may hold the lock.
//
// Errors: [*BusyError] if the lock was not acquired, and what [Client.Hold] gives; then work was not run. After that
// the error of work, joined with that of [Hold.Release]: a [*LostError] if the lock was lost before the release, a
// [*ReleaseUnconfirmedError] if the release was not confirmed, or a [*CheckpointNotSavedError], [*CheckpointUnknownError] or
// [*OutcomeNotRecordedError] if work released with a checkpoint that was not saved, or perhaps not, or an outcome that was
// not recorded.
func (c *Client) WithHold(
	ctx context.Context, spec LeaseSpec, work func(ctx context.Context, hold *Hold) error,
) (err error) {
	hold, err := c.Hold(ctx, spec)
	if err != nil {
		return err
	}
	defer func() {
		// The release concerns the next holder too, so ctx does not cut it short.
		_, releaseErr := hold.Release(context.WithoutCancel(ctx))
		switch {
		case releaseErr == nil || errors.Is(err, releaseErr):
		case err == nil:
			err = releaseErr
		default:
			err = errors.Join(err, releaseErr)
		}
	}()
	return work(hold.Context(), hold)
}

// Hold takes a lock and keeps it until [Hold.Release]; a defer of that should follow. Prefer [Client.WithHold].
//
// Cancelling ctx ends the wait. After the grant it ends the hold's context, and the lock is still to be released.
//
// Errors: [*BusyError] if the lock was not acquired within the wait, [*OccurrenceOverError] if the occurrence is not
// granted any more, [*LostError] if the grant was over before it could be used, [*RefusedError], with [ReasonUnsupported] if the sidecar is too old for what is asked,
// [*UnreachableError], [*ProtocolError], [ErrClosed], that of ctx.
func (c *Client) Hold(ctx context.Context, spec LeaseSpec) (*Hold, error) {
	return open(ctx, c, spec)
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
	place  *place
	// ctx ends with the hold, and noticeCtx by a notice already.
	ctx       context.Context
	noticeCtx context.Context
	// endStream ends the stream and waits for its goroutine; called after the hold has ended here (S13).
	endStream func()
	// abandonRun is what closing the client does to the hold of a run; nil of another hold.
	abandonRun func(ctx context.Context) error

	releasing sync.Mutex
	released  *ReleaseResult
	// releasedErr is the error that came with that.
	releasedErr error
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

// id names this hold, of the newest generation that was answered.
func (h *Hold) id() holdID { return h.idOf(h.state.answered()) }

func (h *Hold) idOf(generation uint64) holdID {
	return holdID{h.LeaseID(), generation, h.place}
}

// ValidUntil is the end of validity on this machine's boot clock, unless renewed. Past it the hold is lost, whether
// or not anything said so.
func (h *Hold) ValidUntil() BootInstant { return h.state.validUntil() }

// MaxHoldEnds is when MaxHold ends on this machine's boot clock; false if there is no limit. The hold is lost then, unless
// it is extended before.
func (h *Hold) MaxHoldEnds() (BootInstant, bool) { return h.state.maxHoldEnds() }

// Permit is which permit of the lock is held, from 0: see LeaseSpec.Permits.
func (h *Hold) Permit() uint32 { return h.grant.GetPermit() }

// Attempt is which attempt at LeaseSpec.Occurrence this is, from 1; 0 if none was asked for. Greater than 1 says that an
// earlier holder failed, or died without an outcome, so the work may have been done in part.
func (h *Hold) Attempt() uint32 { return h.grant.GetAttempt() }

// Remaining is the time left now; zero when the hold is over.
func (h *Hold) Remaining() time.Duration { return h.state.remaining() }

// Valid is whether the holder may act now. Once false, it stays false.
func (h *Hold) Valid() bool { return h.state.valid() }

// Loss is why the hold was lost: a [*LostError]; nil if it was not.
func (h *Hold) Loss() error {
	// Not the pointer as it is: a nil one would make an error that is not nil.
	if loss := h.state.lost(); loss != nil {
		return loss
	}
	return nil
}

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
	validity, sent, err := askAbout(ctx, h, func(id holdID) (*leaseholdv1.Validity, error) {
		return h.client.reportProgress(ctx, id)
	})
	if err != nil {
		return err
	}
	h.state.takeIn(validity, &sent)
	return nil
}

// Extend sets a new MaxHold, counted from now.
//
// Errors: as [Hold.ReportProgress].
func (h *Hold) Extend(ctx context.Context, maxHold time.Duration) error {
	for {
		var asked uint64
		answer, sent, err := askAbout(ctx, h, func(id holdID) (*leaseholdv1.ExtendLeaseResponse, error) {
			asked = id.generation
			return h.client.extend(ctx, id, maxHold)
		})
		if err != nil {
			return err
		}
		// One by a sidecar that the hold has left, or is leaving, is made again where it is then: it counts only there (S16).
		if h.resumed(ctx) == nil && h.state.answered() != asked {
			continue
		}
		h.state.replaceResumeToken(answer.GetResumeToken(), asked)
		h.state.takeInLimit(answer.GetMaxHoldEnds(), &sent)
		if answer.GetValidity() == nil {
			return &ProtocolError{"an extension was answered without a validity"}
		}
		h.state.takeIn(answer.GetValidity(), &sent)
		return nil
	}
}

// askAbout makes a call about the hold, and gives when the answered one was sent. Where a sidecar says that the hold is over,
// and that is no word of the hold as it is now, it is made again when the resume under way was answered (S16).
func askAbout[A any](
	ctx context.Context, h *Hold, call func(id holdID) (A, error),
) (answer A, sent BootInstant, err error) {
	for {
		id := h.id()
		sent = h.state.clock.now()
		answer, err = call(id)
		loss := toldLost(err)
		if loss == nil || h.state.loseAs(id.generation, loss) {
			return answer, sent, err
		}
		if failed := h.resumed(ctx); failed != nil {
			if h.Valid() {
				err = failed
			}
			return answer, sent, err
		}
	}
}

// resumed waits while the hold is being resumed, for what is to go with the generation that it has then (S16).
//
// Errors: that of ctx; a [*LostError], or [ErrReleased], if the hold is over.
func (h *Hold) resumed(ctx context.Context) error {
	for {
		resuming := h.state.isResuming()
		if !h.Valid() {
			return h.endError()
		}
		if !resuming {
			return nil
		}
		select {
		case <-ctx.Done():
			return gaveUp(ctx)
		case <-time.After(answerPoll):
		}
	}
}

// endError is why the hold is over.
func (h *Hold) endError() error {
	if loss := h.Loss(); loss != nil {
		return loss
	}
	return ErrReleased
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
			return 0, nil, errResumeUnanswered
		}
		select {
		case <-ctx.Done():
			return 0, nil, gaveUp(ctx)
		case <-time.After(answerPoll):
		}
	}
}

// Release releases the lock and waits until the store has it, for as long as [WithReleaseTimeout] says. The hold is not
// valid from the first moment of this call on (S13), so stop acting before. A repeated release gives the first one's
// result. With [WithCheckpoint] the checkpoint is saved before, and with [WithOutcome] the outcome recorded. ctx may be that of the hold, which this call ends.
//
// Errors: [*LostError] if the hold was lost before, so that somebody else may have held the lock, also where the release
// is the first to find it; the result says ALREADY_LOST then. [*CheckpointNotSavedError], [*CheckpointUnknownError] and
// [*OutcomeNotRecordedError] if the lock was released, and the checkpoint not saved, or perhaps not, or the outcome not
// recorded. [*ReleaseUnconfirmedError] if the release was not confirmed: nobody answered in time, or ctx ended, or
// [errResumeUnanswered]. The lock becomes available when its lease expires, if not before. [*RefusedError] with
// [ReasonInvalidField] for too large a checkpoint, or an outcome that a holder cannot say: then nothing was done.
func (h *Hold) Release(ctx context.Context, options ...ReleaseOption) (ReleaseResult, error) {
	with, err := releasingWith(options)
	if err != nil {
		return ReleaseResult{}, err
	}
	defer h.client.beginEnding()()
	loss := h.state.end()
	h.releasing.Lock()
	defer h.releasing.Unlock()
	if h.released != nil {
		return *h.released, h.releasedErr
	}
	defer func() {
		h.endStream()
		if h.released != nil {
			h.place.giveBack()
		}
	}()
	wire := notHeld()
	if loss == nil {
		wire, loss, err = h.release(ctx, with)
	} else {
		h.sayKnown()
	}
	if err != nil {
		return ReleaseResult{}, &ReleaseUnconfirmedError{h.LockPath(), err}
	}
	result := resultFrom(wire, with)
	if result.CheckpointOutcome == CheckpointOutcomeSaved {
		h.savedAs(h.state.beginSave(), with.checkpoint, result.CheckpointVersion)
	}
	h.releasedErr = result.incomplete()
	if loss != nil {
		loss = h.state.foundLost(loss)
		result.Outcome, result.LossReason = ReleaseOutcomeAlreadyLost, loss.Reason
		h.releasedErr = loss
	}
	h.released = &result
	return result, h.releasedErr
}

// notHeld is the result of a release that nobody need be asked for.
func notHeld() *leaseholdv1.ReleaseResult {
	return &leaseholdv1.ReleaseResult{Outcome: leaseholdv1.ReleaseOutcome_RELEASE_OUTCOME_ALREADY_LOST}
}

// release asks the sidecar to release the lock; the loss, if the hold was lost before.
func (h *Hold) release(ctx context.Context, with releasing) (*leaseholdv1.ReleaseResult, *LostError, error) {
	outside, stop := withoutEnd(ctx, isReleased)
	defer stop()
	within, cancel := h.client.releaseContext(outside)
	defer cancel()
	generation, refused, err := h.releasable(within)
	if err != nil {
		return nil, nil, err
	}
	if refused != nil {
		return notHeld(), refused, nil
	}
	wire, err := h.client.release(within, h.idOf(generation), with)
	if err != nil {
		return nil, nil, err
	}
	return wire, alreadyLost(wire), nil
}

// sayKnown tells the sidecar that the holder knows of its loss and has let go, so that the lock need not be kept for it
// (S13). Not where a resume may have made a newer generation (S16). Whatever is answered, the hold is lost.
func (h *Hold) sayKnown() {
	generation, answered, refused := h.state.releasable()
	if !answered || refused != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), knownTimeout)
	defer cancel()
	_, _ = h.client.release(ctx, h.idOf(generation), releasing{})
}

func isReleased(cause error) bool { return errors.Is(cause, ErrReleased) }

// withoutEnd is ctx as its caller ends it: a context that comes from the hold's own ends with the hold, which is not to
// cut short the call that says so. ofHold is whether that is the cause.
func withoutEnd(ctx context.Context, ofHold func(cause error) bool) (context.Context, context.CancelFunc) {
	outside, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	end := func() {
		if cause := context.Cause(ctx); !ofHold(cause) {
			cancel(cause)
		}
	}
	if ctx.Err() != nil {
		end()
	}
	stop := context.AfterFunc(ctx, end)
	return outside, func() {
		stop()
		cancel(nil)
	}
}

// abandon is what closing the client does to a hold: it is lost here first (S13), then released. One that its holder
// releases, or did, is over.
func (h *Hold) abandon(ctx context.Context) error {
	closed := clientClosed()
	if h.state.valid() {
		h.state.lose(closed)
	}
	if h.state.lost() != closed {
		return nil
	}
	if h.abandonRun != nil {
		return h.abandonRun(ctx)
	}
	_, loss, err := h.release(ctx, releasing{})
	if err != nil {
		return &ReleaseUnconfirmedError{h.LockPath(), err}
	}
	if loss != nil {
		return loss
	}
	return nil
}
