package leasehold

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

var errWork = errors.New("the work failed")

// withHold runs work under a lock that is granted at once, and gives what WithHold gave.
func (b *bench) withHold(
	ctx context.Context, work func(ctx context.Context, hold *Hold, call *holdCall) error,
) <-chan error {
	b.Helper()
	calls := make(chan *holdCall, 1)
	done := make(chan error, 1)
	go func() {
		defer close(done)
		done <- b.client.WithHold(ctx, LeaseSpec{}, func(ctx context.Context, hold *Hold) error {
			return work(ctx, hold, <-calls)
		})
	}()
	call := b.call()
	calls <- call
	call.tell(granted(validity(ours, 1_058, 58)))
	return done
}

func TestWithHoldGivesTheErrorOfTheWorkAndReleases(t *testing.T) {
	for name, wanted := range map[string]error{"well": nil, "failed": errWork} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			done := b.withHold(t.Context(), func(ctx context.Context, hold *Hold, _ *holdCall) error {
				if hold.Context() != ctx || !hold.Valid() {
					t.Error("it is not held")
				}
				return wanted
			})
			if err := receive(t, "the end", done); err != wanted {
				t.Error(err)
			}
			if calls := b.sidecar.calls(); len(calls) != 1 {
				t.Error(calls)
			}
		})
	}
}

func TestALossCancelsTheWorkWithItsCause(t *testing.T) {
	b := newBench(t)
	done := b.withHold(t.Context(), func(ctx context.Context, _ *Hold, call *holdCall) error {
		call.tell(lostFor(leaseholdv1.LossReason_LOSS_REASON_BROKEN))
		receive(t, "the cancellation", ctx.Done())
		var lost *LostError
		if !errors.As(context.Cause(ctx), &lost) {
			t.Error(context.Cause(ctx))
		}
		return errWork
	})
	var lost *LostError
	err := receive(t, "the end", done)
	if !errors.As(err, &lost) || !errors.Is(err, errWork) || lost.Reason != LossReasonBroken {
		t.Error(err)
	}
	if calls := b.sidecar.calls(); len(calls) != 1 || calls[0] != "release lease-1 of generation 1" {
		t.Error("S13: it says that it knows:", calls)
	}
}

func TestALossThatTheWorkDidNotNoticeIsToldAllTheSame(t *testing.T) {
	b := newBench(t)
	done := b.withHold(t.Context(), func(context.Context, *Hold, *holdCall) error {
		b.clock.advance(58)
		return nil
	})
	var lost *LostError
	if err := receive(t, "the end", done); !errors.As(err, &lost) {
		t.Error(err)
	}
}

func TestAPanicAndGoexitRelease(t *testing.T) {
	for name, leave := range map[string]func(){"panic": func() { panic("boom") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			done := make(chan any, 1)
			go func() {
				defer func() { done <- recover() }()
				_ = b.client.WithHold(t.Context(), LeaseSpec{}, func(context.Context, *Hold) error {
					leave()
					return nil
				})
			}()
			call := b.call()
			call.tell(granted(validity(ours, 1_058, 58)))
			if recovered := receive(t, "the end", done); (recovered == "boom") != (name == "panic") {
				t.Error(recovered)
			}
			if calls := b.sidecar.calls(); len(calls) != 1 || calls[0] != "release lease-1 of generation 1" {
				t.Error(calls)
			}
			receive(t, "the end of the stream", call.over)
		})
	}
}

func TestACancelledCallerReleasesAllTheSame(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := b.withHold(ctx, func(ctx context.Context, _ *Hold, _ *holdCall) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	})
	if err := receive(t, "the end", done); err != context.Canceled {
		t.Error(err)
	}
	if calls := b.sidecar.calls(); len(calls) != 1 {
		t.Error(calls)
	}
}

func TestAReleaseThatFailsIsToldApartFromWorkThatFailed(t *testing.T) {
	b := newBench(t)
	b.sidecar.onRelease = func() error { return status.Error(codes.Internal, "the disk is full") }
	var call *holdCall
	done := b.withHold(t.Context(), func(_ context.Context, _ *Hold, c *holdCall) error {
		call = c
		return errWork
	})
	var release *ReleaseUnconfirmedError
	var refused *RefusedError
	err := receive(t, "the end", done)
	if !errors.As(err, &release) || !errors.Is(err, errWork) || !errors.As(err, &refused) || refused.Code != CodeInternal {
		t.Error(err)
	}
	receive(t, "the end of the stream, which releases the lock", call.over)
}

func TestABusyLockRunsNothing(t *testing.T) {
	b := newBench(t)
	done := make(chan error, 1)
	go func() {
		done <- b.client.WithHold(t.Context(), LeaseSpec{}, func(context.Context, *Hold) error {
			t.Error("it ran")
			return nil
		})
	}()
	b.call().tell(busyWith("somebody"))
	var busy *BusyError
	if err := receive(t, "the end", done); !errors.As(err, &busy) {
		t.Error(err)
	}
}

func TestS13AReleaseThatFindsTheLockLostIsTold(t *testing.T) {
	b := newBench(t)
	b.sidecar.released = &leaseholdv1.ReleaseResult{
		Outcome:    leaseholdv1.ReleaseOutcome_RELEASE_OUTCOME_ALREADY_LOST,
		LossReason: leaseholdv1.LossReason_LOSS_REASON_TAKEN,
	}
	done := make(chan error, 1)
	go func() {
		spec := LeaseSpec{Key: LockKey{Function: "f"}}
		done <- b.client.WithHold(t.Context(), spec, func(context.Context, *Hold) error { return nil })
	}()
	b.call().tell(granted(validity(ours, 1_058, 58)))
	var lost *LostError
	if err := receive(t, "the end", done); !errors.As(err, &lost) || lost.Reason != LossReasonTaken {
		t.Error(err)
	}
}
