package leasehold

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
func (l *leading) grantTerm() *holdCall {
	l.Helper()
	call := l.call()
	if !call.request.GetSpec().GetWaitWithoutEnd() {
		l.Error("a leader waits without end")
	}
	call.tell(grantedHere())
	receive(l.T, "the term", l.terms)
	return call
}

func untilOver(ctx context.Context, _ *Hold) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestWhatATermReturnsDecidesWhetherAnotherFollows(t *testing.T) {
	untilTold := func(_ context.Context, term *Hold) error {
		<-term.Revoked()
		return nil
	}
	notice, lost := said{Until: 58_000, For: 58_000, By: "me"}, lostToAnother
	for name, term := range map[string]struct {
		run    func(ctx context.Context, term *Hold) error
		tell   func(call *holdCall)
		goesOn bool
		err    error
	}{
		"a loss":                    {untilOver, func(call *holdCall) { call.tell(lost) }, true, nil},
		"nil after a notice":        {untilTold, func(call *holdCall) { call.tell(event("revoked", notice)) }, true, nil},
		"nil":                       {run: func(context.Context, *Hold) error { return nil }},
		"an error":                  {run: func(context.Context, *Hold) error { return errWork }, err: errWork},
		"an error of its own after": {func(ctx context.Context, _ *Hold) error { <-ctx.Done(); return errWork }, func(call *holdCall) { call.tell(lost) }, false, errWork},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			l := b.lead(ctx, term.run)
			for range 2 {
				call := l.grantTerm()
				if term.tell != nil {
					term.tell(call)
				}
				if !term.goesOn {
					if err := receive(t, "the end", l.done); !errors.Is(err, term.err) || (err == nil) != (term.err == nil) {
						t.Error(err)
					}
					b.sidecar.wantCalls(t, released)
					return
				}
				if pause := receive(t, "the pause", l.pauses); pause != time.Second {
					t.Error("a term that was granted makes the pauses short again:", pause)
				}
			}
			b.call()
			cancel()
			if err := receive(t, "the end", l.done); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			// S13: also the lost ones say that they are known.
			b.sidecar.wantCalls(t, released, released)
		})
	}
}

func TestPausesGrowWhileNoSidecarAnswersAndLeadingGoesOn(t *testing.T) {
	b := newBench(t)
	b.kill()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l := b.lead(ctx, untilOver)
	var pauses []time.Duration
	for len(pauses) < 6 {
		pauses = append(pauses, receive(t, "a pause", l.pauses)/time.Second)
	}
	if !slices.Equal(pauses, []time.Duration{1, 2, 4, 8, 10, 10}) {
		t.Error(pauses)
	}
	if pause := (pacing{random: func() float64 { return 0 }}).pause(3); pause != 100*time.Millisecond {
		t.Error("the shortest pause:", pause)
	}
	b.start()
	go func() {
		for range l.pauses {
			continue
		}
	}()
	l.grantTerm()
}

func TestARefusalThatTryingAgainDoesNotHelpEndsLeading(t *testing.T) {
	b := newBench(t)
	l := b.lead(t.Context(), untilOver)
	for _, code := range []codes.Code{codes.Unavailable, codes.ResourceExhausted, codes.Aborted, codes.DeadlineExceeded} {
		b.call().fail(status.Error(code, "not now"))
		receive(t, "the pause", l.pauses)
	}
	b.call().fail(status.Error(codes.PermissionDenied, "no"))
	as[*RefusedError](t, receive(t, "the end", l.done))
	for _, code := range []codes.Code{codes.InvalidArgument, codes.Internal, codes.DataLoss, codes.FailedPrecondition} {
		if passes(refusal(status.Error(code, "no"))) {
			t.Error(code)
		}
	}
}

func TestS33ToS35TermsAreAskedForWithThem(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	over := make(chan error, 1)
	spec := LeaseSpec{Priority: 3, Yields: true, Share: "workers", Rebalance: true}
	go func() {
		over <- b.client.Lead(ctx, spec, func(context.Context, *Hold) error { return nil })
	}()
	asked := b.call().request.GetSpec()
	if asked.GetPriority() != 3 || !asked.GetYields() || asked.GetShare() != "workers" || !asked.GetRebalance() {
		t.Error(asked)
	}
	cancel()
	if err := receive(t, "the end", over); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
