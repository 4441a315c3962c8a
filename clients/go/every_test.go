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

// every runs work on each run, without pauses, and gives the stream of the first one, which has come.
func (b *bench) every(ctx context.Context, work func(context.Context, *Run) error) (<-chan error, *subscribeCall) {
	b.Helper()
	b.client.pacing.sleep = func(context.Context, time.Duration) {}
	done := make(chan error, 1)
	go func() { done <- b.client.Every(ctx, nightly(), work) }()
	call := b.subscription()
	call.tell(standingBy(), aRun())
	return done, call
}

// completed waits for the outcome of a run.
func (b *bench) completed(outcome string) {
	b.Helper()
	eventually(b.T, outcome, func() bool {
		calls := b.sidecar.calls()
		return len(calls) == 1 && strings.HasSuffix(calls[0], outcome)
	})
}

func TestWhatTheWorkGivesIsTheOutcome(t *testing.T) {
	for outcome, err := range map[string]error{
		`SUCCEEDED ""`:                                     nil,
		`FAILED "no disk"`:                                 errors.New("no disk"),
		`FAILED_FINAL "no such customer"`:                  &FinalError{errors.New("no such customer")},
		`RETURNED "` + ErrReturned.Error() + `: not here"`: fmt.Errorf("%w: not here", ErrReturned),
	} {
		t.Run(outcome, func(t *testing.T) {
			b := newBench(t)
			ctx, cancel := context.WithCancel(t.Context())
			begun := make(chan *Run, 8)
			done, call := b.every(ctx, func(_ context.Context, run *Run) error {
				begun <- run
				return err
			})
			first := receive(t, "the work", begun)
			b.completed(outcome)
			call.tell(runRecorded(), aRun())
			receive(t, "the next run", begun)
			if first.Valid() {
				t.Error("S13")
			}
			cancel()
			if err := receive(t, "the end", done); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
}

func TestWorkThatIsToldToStopIsReturned(t *testing.T) {
	revoked := &leaseholdv1.SubscribeScheduleResponse{Event: &leaseholdv1.SubscribeScheduleResponse_Revoked{
		Revoked: &leaseholdv1.Revoked{Validity: validity(ours, 1_058, 58)},
	}}
	draining := &leaseholdv1.SubscribeScheduleResponse{Event: &leaseholdv1.SubscribeScheduleResponse_Draining{
		Draining: &leaseholdv1.Draining{},
	}}
	for name, event := range map[string]*leaseholdv1.SubscribeScheduleResponse{
		"a broken lock": revoked, "a sidecar that shuts down": draining, "the caller": nil,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			ctx, cancel := context.WithCancel(t.Context())
			begun, valid := make(chan bool, 8), make(chan bool, 8)
			done, call := b.every(ctx, func(ctx context.Context, run *Run) error {
				begun <- true
				<-ctx.Done()
				valid <- run.Valid()
				return context.Cause(ctx)
			})
			if event != nil {
				call.tell(event)
			} else {
				receive(t, "the work", begun)
				cancel()
			}
			if !receive(t, "the end of the work", valid) {
				t.Error("it is told before the end")
			}
			eventually(t, "it is returned", func() bool {
				calls := b.sidecar.calls()
				return len(calls) == 1 && strings.Contains(calls[0], "RETURNED")
			})
			cancel()
			receive(t, "the end", done)
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
	b.subscription().tell(standingBy(), aRun())
	if value := receive(t, "the panic", panicked); value != "as the test wants" {
		t.Error(value)
	}
	b.completed(`FAILED "the run panicked"`)
}

func TestALossEndsTheWorkAndAnotherRunFollows(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan *Run, 8)
	done, call := b.every(ctx, func(ctx context.Context, run *Run) error {
		begun <- run
		<-ctx.Done()
		return ctx.Err()
	})
	receive(t, "the work", begun)
	call.tell(runLost(leaseholdv1.LossReason_LOSS_REASON_TAKEN))
	// Said nevertheless: until then its sidecar grants nothing here (T24).
	b.completed(`RETURNED "context canceled"`)
	b.subscription().tell(standingBy(), aRun())
	receive(t, "the next run", begun)
	cancel()
	receive(t, "the end", done)
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
