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

func (stories) ARunWithoutAGrantIsAnError(s *stage) {
	asked := s.nextRun()
	s.on(0).said <- &leaseholdv1.SubscribeScheduleResponse{
		Event: &leaseholdv1.SubscribeScheduleResponse_Run{Run: &leaseholdv1.Run{}},
	}
	as[*ProtocolError](s, (<-asked).err)
	s.wantAlive()
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
				s.says("lost", said{Reason: "EXPIRED"})
			}
			s.pass(60_001)
			s.wantAlive()
		})
	}
}

func (stories) AClosedClientReturnsItsRunAndCompletesNone(s *stage) {
	run := s.running()
	err := s.client.Close()
	want(s, err == nil && !run.Valid(), err)
	s.wantSent("subscribe", "complete_run 1 RETURNED")
	wantIs(s, errOf(run.Succeed(s.Context())), ErrClosed)
	s.runs.Close()
	wantIs(s, errOf(s.runs.Next(s.Context())), ErrClosed)
}

func TestWhatBecomesOfTheWorkIsTheOutcomeAndAnotherRunFollows(t *testing.T) {
	untilTold := func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	fails := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	for outcome, of := range map[string]struct {
		work func(ctx context.Context) error
		// event, if there is one, is told while the work goes on, which is valid then unless it is lost.
		event string
		said  said
	}{
		"SUCCEEDED ":                    {work: fails(nil)},
		"FAILED no disk":                {work: fails(errors.New("no disk"))},
		"FAILED_FINAL no customer":      {work: fails(&FinalError{errors.New("no customer")})},
		"RETURNED the run is returned":  {work: fails(fmt.Errorf("%w: not here", ErrReturned))},
		"RETURNED the lock was broken":  {untilTold, "revoked", said{By: "me"}},
		"RETURNED the sidecar is":       {untilTold, "draining", said{}},
		"RETURNED the lock was lost":    {untilTold, "lost", said{Reason: "TAKEN"}},
		"FAILED_FINAL stopped at its d": {untilTold, "lost", said{Reason: "MAX_HOLD_REACHED"}},
	} {
		t.Run(outcome, func(t *testing.T) {
			staged(t, func(s *stage) {
				ctx, cancel := context.WithCancel(s.Context())
				var runs []*Run
				over := later(func() (any, error) {
					return nil, s.client.Every(ctx, s.nightly(), func(ctx context.Context, run *Run) error {
						runs = append(runs, run)
						err := of.work(ctx)
						isLost := of.event == "lost"
						want(t, run.Valid() != isLost || len(runs) != 1, "it is told before the end:", err)
						return err
					})
				})
				s.says("standby", said{Understood: true})
				s.says("run", s.fresh())
				if of.event != "" {
					s.says(of.event, of.said)
				}
				done := request[*leaseholdv1.CompleteRunRequest](s)
				said := strings.TrimPrefix(done.GetOutcome().String(), "RUN_OUTCOME_") + " " + done.GetDetail()
				want(t, strings.HasPrefix(said, outcome) && !(runs[0].Valid()), "S13:", said)
				sent := []string{"subscribe", "complete_run 1 " + strings.Fields(outcome)[0]}
				if runs[0].Loss() != nil {
					// T24: until the outcome was said, its sidecar grants nothing here.
					sent = append(sent, "subscribe reconnected")
				} else {
					s.says("recorded", s.fresh())
				}
				s.wantSent(sent...)
				s.says("run", s.fresh())
				want(t, len(runs) == 2, "no run follows")
				cancel()
				wantIs(t, (<-over).err, context.Canceled)
				// What the end of its caller has cut short is returned.
				if of.event != "" {
					s.wantSent("complete_run 1 RETURNED")
				}
			})
		})
	}
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
	over := later(func() (any, error) {
		return nil, s.client.Every(s.Context(), s.nightly(), func(context.Context, *Run) error { return nil })
	})
	for range 3 {
		s.breaks(0, errGone)
		s.pass(s.clock() + 10_000)
	}
	s.wantSent("subscribe", "subscribe", "subscribe", "subscribe")
	s.breaks(0, status.Error(codes.InvalidArgument, "spec.cron"))
	err := (<-over).err
	want(s, status.Code(err) == codes.InvalidArgument, err)
	s.kill()
	s.pass(s.clock() + 1_000)
	_, err = s.runs.Next(s.Context())
	want(s, err != nil && mayPass(err), "a sidecar that was never there is an error at once:", err)
}

func (stories) ClosingTheClientEndsEvery(s *stage) {
	over := later(func() (any, error) {
		return nil, s.client.Every(s.Context(), s.nightly(), func(ctx context.Context, _ *Run) error {
			ok(s, s.client.Close())
			return ctx.Err()
		})
	})
	s.says("run", s.fresh())
	wantIs(s, (<-over).err, ErrClosed)
}
