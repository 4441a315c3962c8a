package leasehold

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

func (stories) ARunIsCompletedByItsOwnContextAndShowsNoSecrets(s *stage) {
	run := s.running()
	shown := run.String()
	want(s, !strings.Contains(shown, "run-1") && !strings.Contains(shown, "lease-1"), "S20:", shown)
	s.always("complete_run", &leaseholdv1.CompleteRunResponse{
		Result: leaseholdv1.CompletionResult_COMPLETION_RESULT_RECORDED, CheckpointVersion: 5,
	})
	done, err := run.Complete(run.Context(), Completion{Outcome: RunOutcomeSucceeded, Checkpoint: []byte("page 7")})
	want(s, err == nil && done.Result == CompletionResultRecorded && done.CheckpointVersion == 5 && !run.Valid(), done, err)
	again, err := run.Fail(s.Context(), "late")
	want(s, err == nil && again == done, "the first one decides:", again, err)
	s.wantSent("subscribe", "complete_run 1 SUCCEEDED")
	sent := request[*leaseholdv1.CompleteRunRequest](s)
	want(s, sent.GetLeaseId() == "lease-1" && sent.GetRunId() == "run-1" && string(sent.GetCheckpoint()) == "page 7", sent)
}

func TestT12TheStreamOutlivesADeadlineUntilTheSidecarSaysItOrTwoSecondsHavePassed(t *testing.T) {
	for _, isTold := range []bool{true, false} {
		staged(t, func(s *stage) {
			run := s.running()
			s.pass(59_999)
			s.wantLoss(run.hold, LossReasonExpired)
			// What no run concerns is still read.
			s.says("definition_in_force", said{})
			s.wantTold("subscribed", "standby", "lost EXPIRED", "definition")
			if s.wantAlive(1); isTold {
				s.says("lost", said{"reason": "EXPIRED"})
			}
			s.pass(60_001)
			s.wantAlive()
		})
	}
}

func (stories) ClosingTheClientReturnsItsRunCompletesNoneAndEndsEvery(s *stage) {
	over := s.works(s.Context(), func(ctx context.Context, run *Run) error {
		err := s.client.Close()
		want(s, err == nil && !run.Valid(), err)
		wantIs(s, errOf(run.Succeed(s.Context())), ErrClosed)
		return ctx.Err()
	})
	s.says("run", s.fresh())
	wantIs(s, (<-over).err, ErrClosed)
	s.wantSent("subscribe", "complete_run 1 RETURNED")
	wantIs(s, errOf(s.runs.Next(s.Context())), ErrClosed)
}

func (s *stage) works(ctx context.Context, work func(ctx context.Context, run *Run) error) <-chan outcome[any] {
	return ending(func() error { return s.client.Every(ctx, s.nightly(), work) })
}

func TestWhatBecomesOfTheWorkIsTheOutcomeAndAnotherRunFollows(t *testing.T) {
	untilTold := func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
	fails := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	type ending struct {
		work func(ctx context.Context) error
		// event, if there is one, is told while the work goes on, which is valid then unless it is lost.
		event string
		said  said
	}
	each(t, map[string]ending{
		"SUCCEEDED ":                    {work: fails(nil)},
		"FAILED no disk":                {work: fails(errors.New("no disk"))},
		"FAILED_FINAL no customer":      {work: fails(&FinalError{errors.New("no customer")})},
		"RETURNED the run is returned":  {work: fails(fmt.Errorf("%w: not here", ErrReturned))},
		"RETURNED the lock was broken":  {untilTold, "revoked", said{"by": "me"}},
		"RETURNED the sidecar is":       {untilTold, "draining", said{}},
		"RETURNED the lock was lost":    {untilTold, "lost", said{"reason": "TAKEN"}},
		"FAILED_FINAL stopped at its d": {untilTold, "lost", said{"reason": "MAX_HOLD_REACHED"}},
	}, func(s *stage, outcome string, of ending) {
		ctx, cancel := context.WithCancel(s.Context())
		var runs []*Run
		over := s.works(ctx, func(ctx context.Context, run *Run) error {
			runs = append(runs, run)
			err := of.work(ctx)
			want(s, run.Valid() == (of.event != "lost") || len(runs) > 1, "it is told before the end:", err)
			return err
		})
		s.says("standby", said{"understood": true})
		s.says("run", s.fresh())
		if of.event != "" {
			s.says(of.event, of.said)
		}
		done := request[*leaseholdv1.CompleteRunRequest](s)
		said := strings.TrimPrefix(done.GetOutcome().String(), "RUN_OUTCOME_") + " " + done.GetDetail()
		want(s, strings.HasPrefix(said, outcome) && !runs[0].Valid(), "S13:", said)
		sent := []string{"subscribe", "complete_run 1 " + strings.Fields(outcome)[0]}
		if runs[0].Loss() != nil {
			// T24: until the outcome was said, its sidecar grants nothing here.
			sent = append(sent, "subscribe reconnected")
		} else {
			s.says("recorded", s.fresh())
		}
		s.wantSent(sent...)
		s.says("run", s.fresh())
		want(s, len(runs) == 2, "no run follows")
		cancel()
		wantIs(s, (<-over).err, context.Canceled)
		// What the end of its caller has cut short is returned.
		if of.event != "" {
			s.wantSent("complete_run 1 RETURNED")
		}
	})
}

func (stories) APanicHasFailed(s *stage) {
	panicked := later(func() (value any, err error) {
		defer func() { value = recover() }()
		return nil, s.client.Every(s.Context(), s.nightly(), func(context.Context, *Run) error { panic("as the test wants") })
	})
	s.says("run", s.fresh())
	value := (<-panicked).value
	want(s, value == "as the test wants", value)
	sent := request[*leaseholdv1.CompleteRunRequest](s)
	want(s, sent.GetDetail() == "the run panicked", sent)
	s.wantSent("subscribe", "complete_run 1 FAILED")
}

func (stories) EveryGoesOnWhileNoSidecarAnswersAndEndsWhereThatDoesNotHelp(s *stage) {
	over := s.works(s.Context(), func(context.Context, *Run) error { return nil })
	for range 3 {
		s.breaks(0, errGone)
		s.pass(s.clock() + 10_000)
	}
	s.wantSent("subscribe", "subscribe", "subscribe", "subscribe")
	s.breaks(0, status.Error(codes.InvalidArgument, "spec.cron"))
	err := (<-over).err
	want(s, status.Code(err) == codes.InvalidArgument, err)
	asked := s.nextRun()
	s.breaks(0, status.Error(codes.Unimplemented, ""))
	err = (<-asked).err
	want(s, strings.Contains(err.Error(), "update the sidecar"), "S37:", err)
	s.kill()
	s.pass(s.clock() + 1_000)
	_, err = s.runs.Next(s.Context())
	want(s, err != nil && passes(err), "a sidecar that was never there is an error at once:", err)
}

func (s *stage) leads(ctx context.Context, spec LeaseSpec, run func(ctx context.Context, term *Hold) error) <-chan outcome[any] {
	return ending(func() error { return s.client.Lead(ctx, spec, run) })
}

func TestWhatATermReturnsDecidesWhetherAnotherFollows(t *testing.T) {
	returns := func(err error) func(context.Context, *Hold) error {
		return func(context.Context, *Hold) error { return err }
	}
	untilRevoked := func(_ context.Context, term *Hold) error { <-term.Revoked(); return nil }
	untilOver := func(ctx context.Context, _ *Hold) error { <-ctx.Done(); return context.Cause(ctx) }
	type ending struct {
		run    func(ctx context.Context, term *Hold) error
		event  string
		goesOn bool
		err    error
	}
	each(t, map[string]ending{
		"a loss":                    {untilOver, "lost", true, nil},
		"nil after a notice":        {untilRevoked, "revoked", true, nil},
		"nil":                       {returns(nil), "", false, nil},
		"an error":                  {returns(errWork), "", false, errWork},
		"an error of its own after": {func(ctx context.Context, _ *Hold) error { <-ctx.Done(); return errWork }, "lost", false, errWork},
	}, func(s *stage, name string, term ending) {
		ctx, cancel := context.WithCancel(s.Context())
		defer cancel()
		// S33 to S35: terms are asked for with them.
		over := s.leads(ctx, LeaseSpec{Priority: 3, Yields: true, Share: "workers", Rebalance: true}, term.run)
		const asks = "hold wait_without_end priority 3 yields share workers"
		for range 2 {
			spec := request[*leaseholdv1.HoldLeaseRequest](s).GetSpec()
			want(s, spec.GetWaitWithoutEnd() && spec.GetRebalance(), "a leader waits without end:", spec)
			s.says("granted", s.fresh())
			if term.event != "" {
				s.says(term.event, said{"reason": "TAKEN", "by": "me"})
			}
			// S13: also the lost ones say that they are known.
			s.wantSent(asks, "release 1")
			if !term.goesOn {
				err := (<-over).err
				want(s, errors.Is(err, term.err) && (err == nil) == (term.err == nil), err)
				return
			}
			// A term that was granted makes the pauses short again.
			s.pass(s.clock() + 999)
			s.wantSent()
			s.pass(s.clock() + 1)
		}
		s.wantSent(asks)
		cancel()
		wantIs(s, (<-over).err, context.Canceled)
	})
}

func (stories) PausesGrowWhileNoSidecarAnswersAndARefusalForGoodEndsLeading(s *stage) {
	over := s.leads(s.Context(), LeaseSpec{}, func(ctx context.Context, _ *Hold) error { <-ctx.Done(); return nil })
	s.wantSent("hold wait_without_end")
	refuse := func(code codes.Code, pause int64) {
		s.breaks(0, status.Error(code, "not now"))
		s.pass(s.clock() + pause - 1)
		s.wantSent()
		s.pass(s.clock() + 1)
		s.wantSent("hold wait_without_end")
	}
	for i, code := range []codes.Code{
		codes.Unavailable, codes.ResourceExhausted, codes.Aborted, codes.DeadlineExceeded, codes.Internal, codes.Canceled,
	} {
		refuse(code, []int64{1_000, 2_000, 4_000, 8_000, 10_000, 10_000}[i])
	}
	s.client.random = func() float64 { return 0 }
	refuse(codes.Unavailable, 100)
	s.kill()
	s.pass(s.clock() + 10_000)
	s.start()
	s.pass(s.clock() + 10_000)
	s.wantSent("hold wait_without_end")
	s.breaks(0, status.Error(codes.PermissionDenied, "no"))
	as[*RefusedError](s, (<-over).err)
	for _, code := range []codes.Code{codes.InvalidArgument, codes.DataLoss, codes.FailedPrecondition} {
		want(s, !passes(refusal(status.Error(code, "no"))), code)
	}
}
