package leasehold

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

func (s *stage) leads(ctx context.Context, run func(ctx context.Context, term *Hold) error) <-chan outcome[any] {
	return later(func() (any, error) { return nil, s.client.Lead(ctx, LeaseSpec{}, run) })
}

func TestWhatATermReturnsDecidesWhetherAnotherFollows(t *testing.T) {
	untilOver := func(ctx context.Context, _ *Hold) error { <-ctx.Done(); return context.Cause(ctx) }
	for name, term := range map[string]struct {
		run    func(ctx context.Context, term *Hold) error
		event  string
		goesOn bool
		err    error
	}{
		"a loss":                    {run: untilOver, event: "lost", goesOn: true},
		"nil after a notice":        {run: func(_ context.Context, term *Hold) error { <-term.Revoked(); return nil }, event: "revoked", goesOn: true},
		"nil":                       {run: func(context.Context, *Hold) error { return nil }},
		"an error":                  {run: func(context.Context, *Hold) error { return errWork }, err: errWork},
		"an error of its own after": {run: func(ctx context.Context, _ *Hold) error { <-ctx.Done(); return errWork }, event: "lost", err: errWork},
	} {
		t.Run(name, func(t *testing.T) {
			staged(t, func(s *stage) {
				ctx, cancel := context.WithCancel(s.Context())
				defer cancel()
				over := s.leads(ctx, term.run)
				for range 2 {
					want(t, request[*leaseholdv1.HoldLeaseRequest](s).GetSpec().GetWaitWithoutEnd(), "a leader waits without end")
					s.says("granted", s.fresh())
					if term.event != "" {
						s.says(term.event, said{Reason: "TAKEN", By: "me"})
					}
					// S13: also the lost ones say that they are known.
					s.wantSent("hold", "release 1")
					if !term.goesOn {
						err := (<-over).err
						want(t, errors.Is(err, term.err) && (err == nil) == (term.err == nil), err)
						return
					}
					// A term that was granted makes the pauses short again.
					s.pass(s.clock() + 999)
					s.wantSent()
					s.pass(s.clock() + 1)
				}
				cancel()
				wantIs(t, (<-over).err, context.Canceled)
			})
		})
	}
}

func (stories) PausesGrowWhileNoSidecarAnswersAndARefusalForGoodEndsLeading(s *stage) {
	over := s.leads(s.Context(), func(ctx context.Context, _ *Hold) error { <-ctx.Done(); return nil })
	s.wantSent("hold")
	refuse := func(code codes.Code, pause int64) {
		s.breaks(0, status.Error(code, "not now"))
		s.pass(s.clock() + pause - 1)
		s.wantSent()
		s.pass(s.clock() + 1)
		s.wantSent("hold")
	}
	for i, code := range []codes.Code{
		codes.Unavailable, codes.ResourceExhausted, codes.Aborted, codes.DeadlineExceeded, codes.Unavailable, codes.Unavailable,
	} {
		refuse(code, []int64{1_000, 2_000, 4_000, 8_000, 10_000, 10_000}[i])
	}
	s.client.random = func() float64 { return 0 }
	refuse(codes.Unavailable, 100)
	s.kill()
	s.pass(s.clock() + 10_000)
	s.start()
	s.pass(s.clock() + 10_000)
	s.wantSent("hold")
	s.breaks(0, status.Error(codes.PermissionDenied, "no"))
	as[*RefusedError](s, (<-over).err)
	for _, code := range []codes.Code{codes.InvalidArgument, codes.Internal, codes.DataLoss, codes.FailedPrecondition} {
		want(s, !(passes(refusal(status.Error(code, "no")))), code)
	}
}

func (stories) S33ToS35TermsAreAskedForWithThem(s *stage) {
	ctx, cancel := context.WithCancel(s.Context())
	spec := LeaseSpec{Priority: 3, Yields: true, Share: "workers", Rebalance: true}
	over := later(func() (any, error) {
		return nil, s.client.Lead(ctx, spec, func(context.Context, *Hold) error { return nil })
	})
	s.wantSent("hold priority 3 yields share workers")
	want(s, request[*leaseholdv1.HoldLeaseRequest](s).GetSpec().GetRebalance(), "it does not rebalance")
	cancel()
	wantIs(s, (<-over).err, context.Canceled)
}
