package leasehold

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

var errWork = errors.New("the work failed")

func (stories) AHoldTellsItsGrantAndNoSecrets(s *stage) {
	hold := s.holds()
	key := request[*leaseholdv1.HoldLeaseRequest](s).GetSpec().GetKey()
	want(s, key.GetFunction() == "f" && key.GetScope() == "s" && hold.FencingToken() == 65_536 && hold.LeaseID() == "lease-1" && hold.LockPath() == "locks/p/h/f/s/FUNCTION" &&
		hold.Remaining() == 58*time.Second,
		key, hold)
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if shown := fmt.Sprintf(format, hold); strings.Contains(shown, "lease-1") || strings.Contains(shown, "resume-1") {
			s.Errorf("S20: %s shows %s", format, shown)
		}
	}
	isNil := func(err error) bool { return err == nil }
	if !isNil(hold.Loss()) {
		s.Errorf("%T is an error that is not nil", hold.Loss())
	}
}

func (stories) ACallerThatGivesUpLeavesTheQueue(s *stage) {
	ctx, cancel := context.WithCancelCause(s.Context())
	asked := s.asks(ctx, LeaseSpec{})
	s.says("waiting", said{Position: 1})
	cancel(errWork)
	err := (<-asked).err
	want(s, errors.Is(err, context.Canceled) && errors.Is(err, errWork), err)
	s.wantAlive()
}

func (stories) S14ACancelledCallerStillHoldsUntilItReleases(s *stage) {
	ctx, cancel := context.WithTimeout(s.Context(), time.Hour)
	hold := s.granted(s.asks(ctx, LeaseSpec{}))
	cancel()
	<-hold.Context().Done()
	s.wantAlive(1)
	want(s, hold.Valid() && hold.Loss() == nil, "the hold was given up")
	s.releases(hold)
	s.wantAlive()
	s.wantSent("hold", "release 1")
}

func (stories) ASlowListenerKeepsNothingWaiting(s *stage) {
	stuck := make(chan struct{})
	defer close(stuck)
	hold := s.granted(s.asks(s.Context(), LeaseSpec{OnEvent: func(HoldEvent) { <-stuck }}))
	s.pass(1_000)
	s.says("renewed", s.fresh())
	want(s, hold.Remaining() == 58*time.Second, hold.Remaining())
	s.says("lost", said{Reason: "TAKEN"})
	s.wantLoss(hold, LossReasonTaken)
}

func TestS22S33ANoticeEndsItsContextAndALossBothAndAPriorityIsToldFromAnOperator(t *testing.T) {
	for _, priority := range []*uint32{nil, proto.Uint32(0), proto.Uint32(7)} {
		staged(t, func(s *stage) {
			hold := s.holds()
			want(t, hold.Notice() == nil && hold.NoticeContext().Err() == nil, "there is no notice yet")
			word := s.word(s.on(0), "revoked", said{By: "me"}).(*leaseholdv1.HoldLeaseResponse)
			word.GetRevoked().BreakNote.Reason, word.GetRevoked().BreakNote.ForPriority = "deploy", priority
			s.on(0).said <- word
			<-hold.Revoked()
			<-hold.NoticeContext().Done()
			wanted := Notice{Deadline: hold.ValidUntil(), Reason: "deploy", By: "me", ForPriority: priority}
			revoked := as[*RevokedError](t, context.Cause(hold.NoticeContext()))
			want(t, reflect.DeepEqual(revoked.Notice, wanted) && reflect.DeepEqual(*hold.Notice(), wanted) && strings.Contains(revoked.Error(), `"me": deploy`) &&
				hold.Valid() &&
				hold.Context().Err() == nil,
				revoked, hold.Notice(), hold.Loss())
			s.pass(58_000)
			note := s.wantLoss(hold, LossReasonBroken).BreakNote
			want(t, note.BrokenBy == "me" && reflect.DeepEqual(note.ForPriority, priority), note)
			other := s.holds()
			s.says("lost", said{Reason: "TAKEN"})
			loss := s.wantLoss(other, LossReasonTaken)
			cause := context.Cause(other.NoticeContext())
			want(t, cause == error(loss) && other.Notice() == nil, cause, other.Notice())
			select {
			case <-other.Revoked():
				t.Error("no notice was given")
			default:
			}
		})
	}
}

func TestWithHoldReleasesHoweverTheWorkEndsAndHidesNoError(t *testing.T) {
	ends := map[string]struct {
		work func(ctx context.Context) error
		// meanwhile happens while the work goes on.
		meanwhile func(s *stage, cancel func())
		isWanted  func(err error) bool
	}{
		"well":   {work: func(context.Context) error { return nil }, isWanted: func(err error) bool { return err == nil }},
		"failed": {work: func(context.Context) error { return errWork }, isWanted: func(err error) bool { return err == errWork }},
		"unconfirmed": {
			work: func(ctx context.Context) error { return errWork },
			isWanted: func(err error) bool {
				var unconfirmed *ReleaseUnconfirmedError
				return errors.As(err, &unconfirmed) && errors.Is(err, errWork) && status.Code(unconfirmed.Err) == codes.Internal
			},
		},
		"cancelled": {
			work:      func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
			meanwhile: func(_ *stage, cancel func()) { cancel() },
			isWanted:  func(err error) bool { return err == context.Canceled },
		},
		"lost": {
			work:      func(ctx context.Context) error { <-ctx.Done(); return errWork },
			meanwhile: func(s *stage, _ func()) { s.says("lost", said{Reason: "TAKEN"}) },
			isWanted: func(err error) bool {
				var lost *LostError
				return errors.As(err, &lost) && errors.Is(err, errWork) && lost.Reason == LossReasonTaken
			},
		},
		"panic": {
			work:     func(context.Context) error { panic("boom") },
			isWanted: func(err error) bool { return err != nil && err.Error() == "boom" },
		},
		"Goexit": {
			work:     func(context.Context) error { runtime.Goexit(); return nil },
			isWanted: func(err error) bool { return err == nil },
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			staged(t, func(s *stage) {
				if name == "unconfirmed" {
					s.always("release", status.Error(codes.Internal, "the disk is full"))
				}
				ctx, cancel := context.WithCancel(s.Context())
				defer cancel()
				over := make(chan error, 1)
				go func() {
					var err error
					defer func() {
						if recovered := recover(); recovered != nil {
							err = fmt.Errorf("%v", recovered)
						}
						over <- err
					}()
					err = s.client.WithHold(ctx, LeaseSpec{}, func(ctx context.Context, hold *Hold) error {
						want(t, hold.Context() == ctx && hold.Valid(), "it is not held")
						return end.work(ctx)
					})
				}()
				synctest.Wait()
				s.says("granted", s.fresh())
				if end.meanwhile != nil {
					end.meanwhile(s, cancel)
				}
				err := <-over
				want(t, end.isWanted(err), err)
				s.wantSent("hold", "release 1")
				s.wantAlive()
			})
		})
	}
}

func (stories) AReleaseIsNotCutShortByTheEndThatItGivesTheHold(s *stage) {
	hold := s.holds()
	// As in the block of WithHold, whose context is the hold's.
	work, cancel := context.WithCancel(hold.Context())
	defer cancel()
	s.always("release", &leaseholdv1.ReleaseLeaseResponse{Result: &leaseholdv1.ReleaseResult{
		Outcome: leaseholdv1.ReleaseOutcome_RELEASE_OUTCOME_RELEASED, CheckpointVersion: 7,
		CheckpointOutcome: leaseholdv1.CheckpointOutcome_CHECKPOINT_OUTCOME_SAVED,
	}})
	result, err := hold.Release(work, WithCheckpoint(nil), WithOutcome(RunOutcomeFailed))
	as[*OutcomeNotRecordedError](s, err)
	checkpoint := hold.Checkpoint()
	want(s, result.Outcome == ReleaseOutcomeReleased && checkpoint != nil && checkpoint.Version == 7, result, err, checkpoint)
	want(s, context.Cause(work) == ErrReleased, "the hold's context goes on")
	// The first release decides, as by a defer.
	again, repeated := hold.Release(s.Context())
	want(s, again == result && repeated == err, again, repeated)
	_, err = hold.Save(s.Context(), nil)
	want(s, errors.Is(err, ErrReleased), err)
	s.wantSent("hold", "release 1")
	sent := request[*leaseholdv1.ReleaseLeaseRequest](s)
	want(s, sent.GetLeaseId() == "lease-1" && sent.Checkpoint != nil && sent.GetOutcome() == leaseholdv1.RunOutcome_RUN_OUTCOME_FAILED, sent)
}

func (stories) AReleaseIsCutShortByItsCallerAndMayBeRepeated(s *stage) {
	s.always("release", nil)
	hold := s.holds()
	ctx, cancel := context.WithCancel(s.Context())
	released := later(func() (ReleaseResult, error) { return hold.Release(ctx) })
	cancel()
	err := (<-released).err
	want(s, errors.Is(as[*ReleaseUnconfirmedError](s, err), context.Canceled), err)
	s.always("release", said{Outcome: "ALREADY_LOST", Loss: "TAKEN"})
	for range 2 {
		result, err := hold.Release(s.Context())
		loss := as[*LostError](s, err)
		want(s, loss.Reason == LossReasonTaken && hold.Loss() == err && result.Outcome == ReleaseOutcomeAlreadyLost &&
			result.LossReason == LossReasonTaken,
			result, err)
	}
	s.wantSent("hold", "release 1", "release 1")
}

func TestS13ClosingTheClientReleasesWhatIsHeldAndThenEndsTheConnections(t *testing.T) {
	staged(t, func(s *stage) {
		hold := s.holds()
		err := s.client.Close()
		want(t, err == nil, err)
		s.wantLoss(hold, LossReasonUnspecified)
		s.wantSent("hold", "release 1")
		s.wantAlive()
		want(t, s.open.Load() == 0, "a connection is left")
		_, err = s.client.Hold(s.Context(), LeaseSpec{})
		want(t, errors.Is(err, ErrClosed), "a closed client holds:", err)
		err = s.client.Close()
		want(t, err == nil, err)
	})
	staged(t, func(s *stage) {
		s.always("release", nil)
		s.holds()
		err := as[*ReleaseUnconfirmedError](t, s.client.Close())
		want(t, strings.Contains(err.Error(), "did not answer within 50ms") && s.clock() == 50, err, s.clock())
	}, WithReleaseTimeout(50*time.Millisecond))
}

func TestClosingWaitsForReleasesAndCompletionsThatAreUnderWayAsLongAsAReleaseMayTake(t *testing.T) {
	type end = func(context.Context) error
	ends := map[string]func(s *stage) end{
		"release": func(s *stage) end {
			hold := s.holds()
			return func(ctx context.Context) error { return errOf(hold.Release(ctx)) }
		},
		"complete_run": func(s *stage) end {
			run := s.running()
			return func(ctx context.Context) error { return errOf(run.Succeed(ctx)) }
		},
		// Of a lock that was acquired by a unary call.
		"release 0": func(s *stage) end {
			return func(ctx context.Context) error { return errOf(s.client.Release(ctx, "lease-1")) }
		},
	}
	for call, begin := range ends {
		for _, isAnswered := range []bool{true, false} {
			staged(t, func(s *stage) {
				end, name := begin(s), strings.Fields(call)[0]
				answer := s.answers[name]
				s.always(name, nil)
				ended := later(func() (any, error) { return nil, end(s.Context()) })
				closed := later(func() (any, error) { return nil, s.client.Close() })
				s.pass(9_999)
				want(t, len(closed) <= 0 && len(ended) <= 0, call, "was cut short")
				if isAnswered {
					s.give(name, answer)
				}
				closing, ending := <-closed, <-ended
				want(t, closing.err == nil && (ending.err == nil) == isAnswered && s.clock() != 9_999 == !isAnswered, call, closing.err, ending.err, s.clock())
			})
		}
	}
}
