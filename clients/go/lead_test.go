package leasehold

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// leading is a Lead whose pauses are told and take no time.
type leading struct {
	*bench
	terms  chan *Hold
	pauses chan time.Duration
	done   chan error
}

// lead leads until ctx ends.
func (b *bench) lead(ctx context.Context, run func(ctx context.Context, term *Hold) error) *leading {
	l := &leading{b, make(chan *Hold, 8), make(chan time.Duration, 64), make(chan error, 1)}
	b.client.pacing = pacing{
		sleep:  func(_ context.Context, pause time.Duration) { l.pauses <- pause },
		random: func() float64 { return 1 },
	}
	go func() {
		l.done <- b.client.Lead(ctx, LeaseSpec{}, func(ctx context.Context, term *Hold) error {
			l.terms <- term
			return run(ctx, term)
		})
	}()
	return l
}

// grantTerm grants the next term.
func (l *leading) grantTerm() (*Hold, *holdCall) {
	l.Helper()
	call := l.call()
	if !call.request.GetSpec().GetWaitWithoutEnd() {
		l.Error("a leader waits without end")
	}
	call.tell(grantedHere())
	return receive(l.T, "the term", l.terms), call
}

func untilOver(ctx context.Context, _ *Hold) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestALeaderLeadsAgainAfterALossUntilItsContextEnds(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	l := b.lead(ctx, untilOver)
	for range 2 {
		term, call := l.grantTerm()
		call.tell(lostFor(leaseholdv1.LossReason_LOSS_REASON_TAKEN))
		lossOf(t, term)
		if pause := receive(t, "the pause", l.pauses); pause != time.Second {
			t.Error("a term that was granted makes the pauses short again:", pause)
		}
	}
	l.grantTerm()
	cancel()
	if err := receive(t, "the end", l.done); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// S13: and the lost ones say that they know.
	if calls := b.sidecar.calls(); len(calls) != 3 {
		t.Error("the last term is released:", calls)
	}
}

func TestATermThatReturnsEndsLeading(t *testing.T) {
	for name, wanted := range map[string]error{"nil": nil, "an error": errWork} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			l := b.lead(t.Context(), func(context.Context, *Hold) error { return wanted })
			l.grantTerm()
			if err := receive(t, "the end", l.done); err != wanted {
				t.Error(err)
			}
			if calls := b.sidecar.calls(); len(calls) != 1 {
				t.Error("it is released:", calls)
			}
		})
	}
}

func TestAnErrorOfItsOwnEndsLeadingAlsoAfterALoss(t *testing.T) {
	b := newBench(t)
	l := b.lead(t.Context(), func(ctx context.Context, _ *Hold) error {
		<-ctx.Done()
		return errWork
	})
	_, call := l.grantTerm()
	call.tell(lostFor(leaseholdv1.LossReason_LOSS_REASON_TAKEN))
	if err := receive(t, "the end", l.done); !errors.Is(err, errWork) {
		t.Error(err)
	}
}

func TestATermThatReturnsNilAfterItsNoticeIsFollowedByAnother(t *testing.T) {
	b := newBench(t)
	l := b.lead(t.Context(), func(_ context.Context, term *Hold) error {
		<-term.Revoked()
		return nil
	})
	_, call := l.grantTerm()
	call.tell(revokedBy(validity(ours, 1_058, 58), "me"))
	_, call = l.grantTerm()
	if calls := b.sidecar.calls(); len(calls) != 1 {
		t.Error("the first term is released:", calls)
	}
	call.tell(lostFor(leaseholdv1.LossReason_LOSS_REASON_BROKEN))
}

func TestPausesGrowWhileNoSidecarAnswersAndLeadingGoesOn(t *testing.T) {
	b := newBench(t)
	b.kill()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l := b.lead(ctx, untilOver)
	var pauses []time.Duration
	for len(pauses) < 6 {
		pauses = append(pauses, receive(t, "a pause", l.pauses))
	}
	wanted := []time.Duration{1, 2, 4, 8, 10, 10}
	for i := range wanted {
		wanted[i] *= time.Second
	}
	if !slices.Equal(pauses, wanted) {
		t.Error(pauses)
	}
	b.start()
	go func() {
		for range l.pauses {
			continue
		}
	}()
	l.grantTerm()
}

func TestTheShortestPauseIsATenthOfASecond(t *testing.T) {
	if pause := (pacing{random: func() float64 { return 0 }}).pause(3); pause != 100*time.Millisecond {
		t.Error(pause)
	}
}

func TestARefusalThatTryingAgainDoesNotHelpEndsLeading(t *testing.T) {
	for code, passes := range map[codes.Code]bool{
		codes.PermissionDenied: false, codes.InvalidArgument: false, codes.Internal: false, codes.DataLoss: false,
		codes.Unavailable: true, codes.ResourceExhausted: true,
	} {
		t.Run(code.String(), func(t *testing.T) {
			b := newBench(t)
			l := b.lead(t.Context(), untilOver)
			b.call().fail(status.Error(code, "no"))
			if passes {
				receive(t, "the pause", l.pauses)
				return
			}
			var refused *RefusedError
			if err := receive(t, "the end", l.done); !errors.As(err, &refused) {
				t.Error(err)
			}
		})
	}
}
