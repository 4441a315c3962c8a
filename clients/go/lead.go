package leasehold

import (
	"context"
	"errors"
	"time"
)

// rest pauses after so many failures in a row: at random, so that contenders spread.
func (c *Client) rest(ctx context.Context, failures int) {
	longest := firstTermPause
	for range failures {
		longest = min(2*longest, longestTermPause)
	}
	select {
	case <-ctx.Done():
	case <-time.After(shortestTermPause + time.Duration(c.random()*float64(longest-shortestTermPause))):
	}
}

// Lead runs a function for as long as this caller leads: it takes the lock, waiting without end, runs the function for one
// term, and when the term ends by a loss, takes the lock again, until ctx is cancelled. spec.Wait is not used.
//
// The context of a term is that of its hold: it is cancelled when the lock is lost, and the function must return soon then.
// What it returns decides:
//
//   - nil or an error of the cancellation, from a term that was lost or revoked ([Hold.Revoked]): Lead goes on with the
//     next term;
//   - nil otherwise: the lock is released, and Lead returns nil;
//   - any other error: the lock is released, and Lead returns the error.
//
// Where the sidecar or its store cannot be reached, or it is busy, Lead tries again, after a pause of 0.1 s to 1 s that grows
// to 10 s.
//
// Errors: that of the function; that of ctx; what [Client.Hold] gives, if trying again does not help: [*RefusedError] for
// an invalid spec or a missing permission, [ErrClosed]. [*ReleaseUnconfirmedError] and [*LostError] from the release of the last term.
func (c *Client) Lead(ctx context.Context, spec LeaseSpec, run func(ctx context.Context, term *Hold) error) error {
	spec.Wait, spec.paced = Forever, true
	for failures := 0; ; failures++ {
		term := &term{run: run}
		err := c.WithHold(ctx, spec, term.lead)
		switch {
		case term.hold != nil && !term.goesOn:
			return err
		case ctx.Err() != nil:
			return gaveUp(ctx)
		case term.hold != nil:
			// It is no failure.
			failures = -1
		case !passes(err):
			return err
		}
		c.rest(ctx, failures)
	}
}

// term is one term of a leader.
type term struct {
	run  func(ctx context.Context, term *Hold) error
	hold *Hold
	// goesOn is whether another term follows, because this one was ended from outside.
	goesOn bool
}

func (t *term) lead(ctx context.Context, hold *Hold) error {
	t.hold = hold
	err := t.run(ctx, hold)
	var lost *LostError
	var revoked *RevokedError
	asTold := err == nil || errors.Is(err, context.Canceled) || errors.As(err, &lost) || errors.As(err, &revoked)
	t.goesOn = asTold && (hold.Loss() != nil || hold.Notice() != nil)
	return err
}

// passes is whether an error may be over soon.
func passes(err error) bool {
	var unreachable *UnreachableError
	var lost *LostError
	var busy *BusyError
	var refused *RefusedError
	switch {
	case errors.As(err, &unreachable), errors.As(err, &lost), errors.As(err, &busy):
		return true
	case errors.As(err, &refused):
		switch refused.Code {
		case CodeUnavailable, CodeResourceExhausted, CodeAborted, CodeDeadlineExceeded:
			return true
		}
		return refused.isNoAnswer()
	}
	return false
}
