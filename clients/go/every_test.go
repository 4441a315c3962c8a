package leasehold

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

func TestWhatBecomesOfTheWorkIsTheOutcomeAndAnotherRunFollows(t *testing.T) {
	untilTold := func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	notice, atDeadline := said{Until: 58_000, For: 58_000, By: "me"}, said{Reason: "MAX_HOLD_REACHED"}
	for outcome, of := range map[string]struct {
		work func(ctx context.Context) error
		// tell, if there is one, is told while the work goes on, which is valid then unless it is lost.
		tell *leaseholdv1.SubscribeScheduleResponse
	}{
		"SUCCEEDED 1":                   {work: func(context.Context) error { return nil }},
		"FAILED no disk 1":              {work: func(context.Context) error { return errors.New("no disk") }},
		"FAILED_FINAL no customer 1":    {work: func(context.Context) error { return &FinalError{errors.New("no customer")} }},
		"RETURNED the run is returned":  {work: func(context.Context) error { return fmt.Errorf("%w: not here", ErrReturned) }},
		"RETURNED the lock was broken":  {work: untilTold, tell: ofRun("revoked", notice)},
		"RETURNED the sidecar is":       {work: untilTold, tell: ofRun("draining", said{})},
		"RETURNED the lock was lost":    {work: untilTold, tell: runLost},
		"FAILED_FINAL stopped at its d": {work: untilTold, tell: ofRun("lost", atDeadline)},
	} {
		t.Run(outcome, func(t *testing.T) {
			b := newBench(t)
			b.client.pacing.sleep = func(context.Context, time.Duration) {}
			ctx, cancel := context.WithCancel(t.Context())
			begun, done := make(chan *Run, 8), make(chan error, 1)
			go func() {
				done <- b.client.Every(ctx, nightly(), func(ctx context.Context, run *Run) error {
					begun <- run
					err := of.work(ctx)
					if isLost := strings.Contains(fmt.Sprint(err), "was lost"); run.Valid() == isLost && !errors.Is(err, context.Canceled) {
						t.Error("it is told before the end:", err)
					}
					return err
				})
			}()
			call := b.subscription()
			call.tell(standing, aRun(1, 58_000))
			first := receive(t, "the work", begun)
			if of.tell != nil {
				call.tell(of.tell)
			}
			eventually(t, outcome, func() bool { return len(b.sidecar.calls()) == 1 })
			if calls := b.sidecar.calls(); !strings.Contains(calls[0], "run-1 RUN_OUTCOME_"+outcome) || first.Valid() {
				t.Error("S13:", calls)
			}
			if first.Loss() != nil {
				// T24: until the outcome was said, its sidecar grants nothing here.
				call = b.subscription()
				call.tell(standing)
			} else {
				call.tell(recorded)
			}
			call.tell(aRun(1, 58_000))
			receive(t, "the next run", begun)
			cancel()
			if err := receive(t, "the end", done); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			// What the end of its caller has cut short is returned.
			if calls := b.sidecar.calls(); of.tell != nil && !strings.Contains(calls[1], "RETURNED") {
				t.Error(calls)
			}
		})
	}
}

func TestAPanicHasFailed(t *testing.T) {
	b := newBench(t)
	panicked := make(chan any, 1)
	go func() {
		defer func() { panicked <- recover() }()
		_ = b.client.Every(t.Context(), nightly(), func(context.Context, *Run) error { panic("as the test wants") })
	}()
	b.subscription().tell(standing, aRun(1, 58_000))
	if value := receive(t, "the panic", panicked); value != "as the test wants" {
		t.Error(value)
	}
	b.sidecar.wantCalls(t, "CompleteRun lease-1 run-1 RUN_OUTCOME_FAILED the run panicked 1")
}

func TestEveryGoesOnWhileNoSidecarAnswersAndEndsWhereThatDoesNotHelp(t *testing.T) {
	b := newBench(t)
	b.client.pacing.sleep = func(context.Context, time.Duration) {}
	done := make(chan error, 1)
	go func() {
		done <- b.client.Every(t.Context(), nightly(), func(context.Context, *Run) error { return nil })
	}()
	for range 3 {
		b.subscription().fail(errGone)
	}
	b.subscription().fail(status.Error(codes.InvalidArgument, "spec.cron"))
	if err := receive(t, "the end", done); status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
}

func TestClosingTheClientEndsEvery(t *testing.T) {
	b := newBench(t)
	done := make(chan error, 1)
	go func() {
		done <- b.client.Every(t.Context(), nightly(), func(ctx context.Context, _ *Run) error {
			if err := b.client.Close(); err != nil {
				t.Error(err)
			}
			return ctx.Err()
		})
	}()
	b.subscription().tell(standing, aRun(1, 58_000))
	if err := receive(t, "the end", done); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
