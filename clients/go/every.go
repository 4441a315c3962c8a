package leasehold

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrReturned is returned by the function of [Client.Every], alone or wrapped, if another replica is to run the
// occurrence.
var ErrReturned = errors.New("the run is returned for another replica")

// FinalError is returned by the function of [Client.Every], alone or wrapped, if the run failed and is not to be tried
// again.
type FinalError struct {
	// Err is why.
	Err error
}

func (e *FinalError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *FinalError) Unwrap() error { return e.Err }

// Every takes part in a schedule, and runs a function on each occurrence that falls to this caller, until ctx ends.
//
// The context of the function is [Run.NoticeContext]: it is cancelled when the run is lost, when its deadline comes, when
// the lock is broken, when the sidecar shuts down, and when ctx ends. What the function returns is the run's outcome:
//
//   - nil: it has succeeded;
//   - an error after its deadline has come: it has failed, and is not tried again;
//   - an error after its context was cancelled otherwise, or [ErrReturned]: it is returned, for another replica to run;
//   - a [*FinalError]: it has failed, and is not tried again;
//   - any other error, or a panic: it has failed, with the error's text as the detail, and is tried again as the spec
//     says.
//
// So return the context's error when it ends the work early. Each occurrence is granted until one run of it is recorded,
// never after, and never two at once: a run whose process dies is repeated. Key its effect on [Run.ScheduledAt], or let
// the resource check [Run.FencingToken] (T2).
//
// Where the sidecar or its store cannot be reached, this tries again, after a pause of 0.1 s to 1 s that grows to 10 s.
//
// Errors: that of ctx; what [Runs.Next] and [Run.Complete] give, if trying again does not help.
func (c *Client) Every(ctx context.Context, spec ScheduleSpec, work func(ctx context.Context, run *Run) error) error {
	runs, err := c.Runs(spec)
	if err != nil {
		return err
	}
	defer runs.Close()
	for failures := 0; ; failures++ {
		run, err := runs.Next(ctx)
		switch {
		case err == nil:
			if err := c.workOn(ctx, run, work); err != nil {
				return err
			}
			failures = -1
			continue
		case ctx.Err() != nil:
			return gaveUp(ctx)
		case !passes(err):
			return err
		}
		c.rest(ctx, failures)
	}
}

// workOn runs the function, and says how that ended, also by a panic or runtime.Goexit.
func (c *Client) workOn(ctx context.Context, run *Run, work func(ctx context.Context, run *Run) error) (err error) {
	completion := Completion{Outcome: RunOutcomeFailed, Detail: "the run panicked"}
	defer func() {
		within, cancel := c.soonAfter(ctx)
		defer cancel()
		// Also of a run that was lost: until then, or on a new stream, its sidecar grants nothing here (T24).
		if _, failed := run.Complete(within, completion); failed != nil && run.Loss() == nil {
			err = failed
		}
	}()
	completion = completionOf(run, work(run.NoticeContext(), run))
	return nil
}

// completionOf is the outcome of a run whose work gave err.
func completionOf(run *Run, err error) Completion {
	var final *FinalError
	switch {
	case err == nil:
		return Completion{Outcome: RunOutcomeSucceeded}
	case errors.As(err, &final):
		return Completion{Outcome: RunOutcomeFailedFinal, Detail: err.Error()}
	case isTimedOut(run):
		return Completion{Outcome: RunOutcomeFailedFinal, Detail: "stopped at its deadline: " + err.Error()}
	case errors.Is(err, ErrReturned), run.NoticeContext().Err() != nil:
		return Completion{Outcome: RunOutcomeReturned, Detail: err.Error()}
	default:
		return Completion{Outcome: RunOutcomeFailed, Detail: err.Error()}
	}
}

// isTimedOut is whether the run's deadline has come (T12).
func isTimedOut(run *Run) bool {
	var lost *LostError
	return errors.As(run.Loss(), &lost) && lost.Reason == LossReasonMaxHoldReached
}

// soonAfter is a context that ends as long after ctx as a release may take.
func (c *Client) soonAfter(ctx context.Context) (context.Context, context.CancelFunc) {
	within, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	late := fmt.Errorf("the sidecar did not answer within %v", c.releaseTimeout)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(c.releaseTimeout, func() { cancel(late) }) })
	return within, func() {
		stop()
		cancel(nil)
	}
}
