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

func TestARunIsCompletedByItsOwnContextAndShowsNoSecrets(t *testing.T) {
	staged(t, func(s *stage) {
		run := s.running()
		if shown := run.String(); strings.Contains(shown, "run-1") || strings.Contains(shown, "lease-1") {
			t.Error("S20:", shown)
		}
		s.always("complete_run", &leaseholdv1.CompleteRunResponse{
			Result: leaseholdv1.CompletionResult_COMPLETION_RESULT_RECORDED, CheckpointVersion: 5,
		})
		done, err := run.Complete(run.Context(), Completion{Outcome: RunOutcomeSucceeded, Checkpoint: []byte("page 7")})
		if err != nil || done.Result != CompletionResultRecorded || done.CheckpointVersion != 5 || run.Valid() {
			t.Error(done, err)
		}
		if again, err := run.Fail(s.Context(), "late"); err != nil || again != done {
			t.Error("the first one decides:", again, err)
		}
		s.wantSent("subscribe", "complete_run 1 SUCCEEDED")
		sent := request[*leaseholdv1.CompleteRunRequest](s)
		if sent.GetLeaseId() != "lease-1" || sent.GetRunId() != "run-1" || string(sent.GetCheckpoint()) != "page 7" {
			t.Error(sent)
		}
	})
}

func TestARunWithoutAGrantIsAnError(t *testing.T) {
	staged(t, func(s *stage) {
		asked := s.nextRun()
		s.on(0).said <- &leaseholdv1.SubscribeScheduleResponse{
			Event: &leaseholdv1.SubscribeScheduleResponse_Run{Run: &leaseholdv1.Run{}},
		}
		as[*ProtocolError](t, (<-asked).err)
		s.wantAlive()
	})
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

func TestAClosedClientReturnsItsRunAndCompletesNone(t *testing.T) {
	staged(t, func(s *stage) {
		run := s.running()
		if err := s.client.Close(); err != nil || run.Valid() {
			t.Error(err)
		}
		s.wantSent("subscribe", "complete_run 1 RETURNED")
		if _, err := run.Succeed(s.Context()); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		s.runs.Close()
		if _, err := s.runs.Next(s.Context()); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
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
						if isLost := of.event == "lost"; run.Valid() == isLost && len(runs) == 1 {
							t.Error("it is told before the end:", err)
						}
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
				if !strings.HasPrefix(said, outcome) || runs[0].Valid() {
					t.Error("S13:", said)
				}
				sent := []string{"subscribe", "complete_run 1 " + strings.Fields(outcome)[0]}
				if runs[0].Loss() != nil {
					// T24: until the outcome was said, its sidecar grants nothing here.
					sent = append(sent, "subscribe reconnected")
				} else {
					s.says("recorded", s.fresh())
				}
				s.wantSent(sent...)
				if s.says("run", s.fresh()); len(runs) != 2 {
					t.Error("no run follows")
				}
				cancel()
				if err := (<-over).err; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				// What the end of its caller has cut short is returned.
				if of.event != "" {
					s.wantSent("complete_run 1 RETURNED")
				}
			})
		})
	}
}

func TestAPanicHasFailed(t *testing.T) {
	staged(t, func(s *stage) {
		panicked := later(func() (value any, err error) {
			defer func() { value = recover() }()
			return nil, s.client.Every(s.Context(), s.nightly(), func(context.Context, *Run) error { panic("as the test wants") })
		})
		s.says("run", s.fresh())
		if value := (<-panicked).value; value != "as the test wants" {
			t.Error(value)
		}
		if sent := request[*leaseholdv1.CompleteRunRequest](s); sent.GetDetail() != "the run panicked" {
			t.Error(sent)
		}
		s.wantSent("subscribe", "complete_run 1 FAILED")
	})
}

func TestEveryGoesOnWhileNoSidecarAnswersAndEndsWhereThatDoesNotHelp(t *testing.T) {
	staged(t, func(s *stage) {
		over := later(func() (any, error) {
			return nil, s.client.Every(s.Context(), s.nightly(), func(context.Context, *Run) error { return nil })
		})
		for range 3 {
			s.breaks(errGone)
			s.pass(s.clock() + 10_000)
		}
		s.wantSent("subscribe", "subscribe", "subscribe", "subscribe")
		s.breaks(status.Error(codes.InvalidArgument, "spec.cron"))
		if err := (<-over).err; status.Code(err) != codes.InvalidArgument {
			t.Error(err)
		}
		s.kill()
		s.pass(s.clock() + 1_000)
		if _, err := s.runs.Next(s.Context()); err == nil || !mayPass(err) {
			t.Error("a sidecar that was never there is an error at once:", err)
		}
	})
}

func TestClosingTheClientEndsEvery(t *testing.T) {
	staged(t, func(s *stage) {
		over := later(func() (any, error) {
			return nil, s.client.Every(s.Context(), s.nightly(), func(ctx context.Context, _ *Run) error {
				if err := s.client.Close(); err != nil {
					t.Error(err)
				}
				return ctx.Err()
			})
		})
		s.says("run", s.fresh())
		if err := (<-over).err; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}
