package leasehold

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// Run is an occurrence to be run now, and the hold of the schedule's lock while it is. Say how it ended, by [Run.Complete]
// or its short forms: until that was recorded it may be granted again (T2). It is safe for use by several goroutines.
//
// To have an effect once, key it on [Run.ScheduledAt], or let the resource check [Run.FencingToken].
type Run struct {
	client *Client
	hold   *Hold
	wire   *leaseholdv1.Run
	// noticeCtx ends by a notice, and by draining.
	noticeCtx context.Context
	drain     func(timeLeft time.Duration)
	// back has the stream when the run is over, if it goes on to the next one; then it is closed.
	back chan *runStream

	completing sync.Mutex
	mutex      sync.Mutex
	completed  *CompletedRun
}

// DrainingError is the cause of the end of [Run.NoticeContext] when the sidecar is shutting down.
type DrainingError struct {
	// TimeLeft is how long the sidecar still waits, from when it said so.
	TimeLeft time.Duration
}

func (e *DrainingError) Error() string {
	return fmt.Sprintf("the sidecar is shutting down, and waits for %v at most", e.TimeLeft)
}

// ScheduledAt is the occurrence: the nominal instant, whatever the lateness and the spread (T1). Of a run by hand it is
// when it was started, by the store's clock.
func (r *Run) ScheduledAt() time.Time { return moment(r.wire.GetScheduledAt()) }

// LocalTime is the same as the clocks of the schedule's zone show it, in RFC 3339 with offset and zone.
func (r *Run) LocalTime() string { return r.wire.GetLocalTime() }

// Kind is why there is a run.
func (r *Run) Kind() RunKind { return runKindFrom(r.wire.GetKind()) }

// RequestID is the id of the request, of a run by hand; else empty.
func (r *Run) RequestID() string { return r.wire.GetRequestId() }

// ID names this run in [Client.CompleteRun], also after a restart of this process. Who knows it can end the run, so do
// not log it.
func (r *Run) ID() string { return r.wire.GetRunId() }

// Attempt is which attempt this is, from 1. Greater than 1 means that the work may have been done in part.
func (r *Run) Attempt() uint32 { return r.wire.GetAttempt() }

// MaxAttempts is how many attempts there are.
func (r *Run) MaxAttempts() uint32 { return r.wire.GetMaxAttempts() }

// Lateness is how long after it was due the run was started, by the store's clock, in whole seconds.
func (r *Run) Lateness() time.Duration { return duration(r.wire.GetLateness()) }

// MissedCount is how many occurrences were missed since the last one that was run. At most 10,000 are counted at once.
func (r *Run) MissedCount() uint64 { return r.wire.GetMissedCount() }

// Deadline is when the run is over unless it was completed before, on this machine's boot clock (T12); false if it has
// no deadline.
func (r *Run) Deadline() (BootInstant, bool) { return r.hold.MaxHoldEnds() }

// DeadlineAt is the same by the store's clock; for people.
func (r *Run) DeadlineAt() time.Time { return moment(r.wire.GetDeadlineAt()) }

// NextAt is the next occurrence; zero if there is none.
func (r *Run) NextAt() time.Time { return moment(r.wire.GetNextAt()) }

// Previous is what ended before; nil if nothing has.
func (r *Run) Previous() *EndedRun { return endedFrom(r.wire.GetPrevious()) }

// Context is cancelled when the run is over: with the [*LostError] as its cause when it is lost or its deadline has come,
// with [ErrReleased] when it is completed. It is a child of the context that the run was asked for with.
func (r *Run) Context() context.Context { return r.hold.Context() }

// NoticeContext is a child of [Run.Context] that is cancelled already when the run is to stop in time: with a
// [*RevokedError] as its cause when the lock was broken, with a [*DrainingError] when the sidecar shuts down.
func (r *Run) NoticeContext() context.Context { return r.noticeCtx }

// Revoked is closed when the lock was broken: see [Notice].
func (r *Run) Revoked() <-chan struct{} { return r.hold.Revoked() }

// Notice is the notice that was given; nil if none was.
func (r *Run) Notice() *Notice { return r.hold.Notice() }

// FencingToken is greater than the token of every run before: send it with each write, and let the resource refuse
// smaller ones than it has seen (S5).
func (r *Run) FencingToken() uint64 { return r.hold.FencingToken() }

// LockPath is the path of the schedule's lock.
func (r *Run) LockPath() string { return r.hold.LockPath() }

// Valid is whether the run may go on now. Once false, it stays false.
func (r *Run) Valid() bool { return r.hold.Valid() }

// Remaining is the time left now, unless renewed; zero when the run is over.
func (r *Run) Remaining() time.Duration { return r.hold.Remaining() }

// Loss is why the run was lost: a [*LostError]; nil if it was not.
func (r *Run) Loss() error { return r.hold.Loss() }

// ReportProgress says that the job is getting on, and takes in the validity that the sidecar answers with: see
// [Hold.ReportProgress].
func (r *Run) ReportProgress(ctx context.Context) error { return r.hold.ReportProgress(ctx) }

// Checkpoint is the lock's checkpoint: as the last run left it, or as this one has saved it since; nil if there is none.
func (r *Run) Checkpoint() *Checkpoint { return r.hold.Checkpoint() }

// Save replaces the lock's checkpoint, and gives its version: see [Hold.Save].
func (r *Run) Save(ctx context.Context, value []byte) (uint64, error) { return r.hold.Save(ctx, value) }

// SaveJSON is [Run.Save] of a value as JSON; [Checkpoint.JSON] reads it.
func (r *Run) SaveJSON(ctx context.Context, value any) (uint64, error) {
	return r.hold.SaveJSON(ctx, value)
}

// String shows the lock, the occurrence and the token, and none of the secrets (S20).
func (r *Run) String() string {
	return fmt.Sprintf("run of %s for %s, attempt %d, token %d", r.LockPath(), r.LocalTime(), r.Attempt(), r.FencingToken())
}

// GoString is String.
func (r *Run) GoString() string { return r.String() }

// Complete says how the run ended, and waits until the store has it. The run is not valid from the first moment of this
// call on (S13), so stop acting before. While the sidecar or its store is away it asks again, until ctx ends; ctx may be
// that of the run, which this call ends. Also the outcome of a run that was lost may still count: see CompletedRun.Result. A
// repeated call gives the first one's answer.
//
// Errors: [*RefusedError] when asking again does not help; that of ctx; [ErrClosed].
func (r *Run) Complete(ctx context.Context, completion Completion) (CompletedRun, error) {
	request, err := completion.wire(r.ID())
	if err != nil {
		return CompletedRun{}, err
	}
	defer r.client.beginEnding()()
	outside, stop := withoutEnd(ctx, isOfRun)
	defer stop()
	r.hold.state.end()
	r.completing.Lock()
	defer r.completing.Unlock()
	if done := r.answered(); done != nil {
		return *done, nil
	}
	defer func() {
		r.hold.endStream()
		if r.isCompleted() {
			r.hold.place.giveBack()
		}
	}()
	// Where no resume was answered until the lease was over, the run is named by its id.
	if _, _, err := r.hold.releasable(outside); err != nil && outside.Err() != nil {
		return CompletedRun{}, err
	}
	for pause := firstPause; ; pause = min(2*pause, longestRunPause) {
		completed, err := r.client.completeRun(outside, r.hold.id(), request)
		if err == nil {
			r.mutex.Lock()
			r.completed = &completed
			r.mutex.Unlock()
			return completed, nil
		}
		if outside.Err() != nil || !passes(err) {
			return CompletedRun{}, err
		}
		select {
		case <-outside.Done():
		case <-time.After(max(pause, retryAfter(err))):
		}
	}
}

// Succeed completes the run: it did its work.
//
// Errors: as [Run.Complete].
func (r *Run) Succeed(ctx context.Context) (CompletedRun, error) {
	return r.Complete(ctx, Completion{Outcome: RunOutcomeSucceeded})
}

// Fail completes the run: it failed, and is tried again if attempts are left. The detail is for the sidecar's log.
//
// Errors: as [Run.Complete].
func (r *Run) Fail(ctx context.Context, detail string) (CompletedRun, error) {
	return r.Complete(ctx, Completion{Outcome: RunOutcomeFailed, Detail: detail})
}

// Return completes the run: another replica is to run it.
//
// Errors: as [Run.Complete].
func (r *Run) Return(ctx context.Context) (CompletedRun, error) {
	return r.Complete(ctx, Completion{Outcome: RunOutcomeReturned})
}

func (r *Run) answered() *CompletedRun {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.completed
}

func (r *Run) isCompleted() bool { return r.answered() != nil }

// giveBack has another replica run it; said once, and else its lease expires.
func (r *Run) giveBack(ctx context.Context) error {
	within, cancel := r.client.releaseContext(ctx)
	defer cancel()
	request, err := Completion{Outcome: RunOutcomeReturned}.wire(r.ID())
	if err != nil {
		return err
	}
	_, err = r.client.completeRun(within, r.hold.id(), request)
	return err
}

// isOfRun is whether the cause of a context's end is that of a run's.
func isOfRun(cause error) bool {
	var lost *LostError
	var revoked *RevokedError
	var draining *DrainingError
	return isReleased(cause) || errors.As(cause, &lost) || errors.As(cause, &revoked) || errors.As(cause, &draining)
}

// retryAfter is how long the sidecar says to wait; zero if it does not.
func retryAfter(err error) time.Duration {
	var refused *RefusedError
	if errors.As(err, &refused) {
		return refused.RetryAfter
	}
	return 0
}
