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
	want(s, key.GetFunction() == "f" && key.GetScope() == "s" && hold.FencingToken() == 65_536 && hold.LeaseID() == "lease-1" &&
		hold.LockPath() == "locks/p/h/f/s/FUNCTION" && hold.Remaining() == 58*time.Second, key, hold)
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		shown := fmt.Sprintf(format, hold)
		want(s, !strings.Contains(shown, "lease-1") && !strings.Contains(shown, "resume-1"), "S20:", format, "shows", shown)
	}
	// Not a pointer to no loss.
	wantIs(s, hold.Loss(), nil)
}

func (stories) S14ACallerThatGivesUpLeavesTheQueueAndStillHoldsUntilItReleases(s *stage) {
	ctx, cancel := context.WithTimeoutCause(s.Context(), time.Second, errWork)
	defer cancel()
	hold, asked := s.granted(s.asks(ctx, LeaseSpec{})), s.asks(ctx, LeaseSpec{})
	s.says("waiting", said{"position": 1})
	s.pass(1_000)
	err := (<-asked).err
	<-hold.Context().Done()
	s.wantAlive(1)
	want(s, errors.Is(err, context.DeadlineExceeded) && errors.Is(err, errWork) && hold.Valid() && hold.Loss() == nil, err, hold.Loss())
	s.releases(hold)
	s.wantAlive()
	s.wantSent("hold", "hold", "release 1")
}

func (stories) ASlowListenerKeepsNothingWaiting(s *stage) {
	stuck := make(chan struct{})
	defer close(stuck)
	hold := s.granted(s.asks(s.Context(), LeaseSpec{OnEvent: func(HoldEvent) { <-stuck }}))
	s.pass(1_000)
	s.says("renewed", s.fresh())
	want(s, hold.Remaining() == 58*time.Second, hold.Remaining())
	s.says("lost", said{"reason": "TAKEN"})
	s.wantLoss(hold, LossReasonTaken)
}

func (stories) S22S33ANoticeEndsItsContextAndALossBothAndAPriorityIsToldFromAnOperator(s *stage) {
	for _, priority := range []*uint32{nil, proto.Uint32(0), proto.Uint32(7)} {
		hold := s.holds()
		want(s, hold.Notice() == nil && hold.NoticeContext().Err() == nil, "there is no notice yet")
		word := s.word(s.on(0), "revoked", said{"by": "me"}).(*leaseholdv1.HoldLeaseResponse)
		word.GetRevoked().BreakNote.Reason, word.GetRevoked().BreakNote.ForPriority = "deploy", priority
		s.on(0).said <- word
		<-hold.Revoked()
		<-hold.NoticeContext().Done()
		wanted := Notice{Deadline: hold.ValidUntil(), Reason: "deploy", By: "me", ForPriority: priority}
		revoked := as[*RevokedError](s, context.Cause(hold.NoticeContext()))
		want(s, reflect.DeepEqual(revoked.Notice, wanted) && reflect.DeepEqual(*hold.Notice(), wanted), revoked, hold.Notice())
		want(s, strings.Contains(revoked.Error(), `"me": deploy`) && hold.Valid() && hold.Context().Err() == nil, revoked)
		s.pass(s.clock() + 58_000)
		note := s.wantLoss(hold, LossReasonBroken).BreakNote
		want(s, note.BrokenBy == "me" && reflect.DeepEqual(note.ForPriority, priority), note)
	}
	other := s.holds()
	s.says("lost", said{"reason": "TAKEN"})
	loss, cause := s.wantLoss(other, LossReasonTaken), context.Cause(other.NoticeContext())
	want(s, cause == error(loss) && other.Notice() == nil, cause, other.Notice())
	select {
	case <-other.Revoked():
		s.Error("no notice was given")
	default:
	}
}

func TestWithHoldReleasesHoweverTheWorkEndsAndHidesNoError(t *testing.T) {
	isLost := func(err error) bool {
		return as[*LostError](t, err).Reason == LossReasonTaken && errors.Is(err, errWork)
	}
	isUnconfirmed := func(err error) bool {
		return status.Code(as[*ReleaseUnconfirmedError](t, err).Err) == codes.Internal && errors.Is(err, errWork)
	}
	is := func(wanted error) func(error) bool { return func(err error) bool { return err == wanted } }
	type ending struct {
		work     func(ctx context.Context) error
		isWanted func(err error) bool
	}
	each(t, map[string]ending{
		"unconfirmed": {func(context.Context) error { return errWork }, isUnconfirmed},
		"cancelled":   {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, is(context.Canceled)},
		"lost":        {func(ctx context.Context) error { <-ctx.Done(); return errWork }, isLost},
		"panic":       {func(context.Context) error { panic(errWork) }, is(errWork)},
		"Goexit":      {func(context.Context) error { runtime.Goexit(); return nil }, is(nil)},
	}, func(s *stage, name string, end ending) {
		if name == "unconfirmed" {
			s.always("release", status.Error(codes.Internal, "the disk is full"))
		}
		ctx, cancel := context.WithCancel(s.Context())
		over := make(chan error, 1)
		go func() {
			var err error
			defer func() {
				if recovered, has := recover().(error); has {
					err = recovered
				}
				over <- err
			}()
			err = s.client.WithHold(ctx, LeaseSpec{}, func(ctx context.Context, hold *Hold) error {
				want(s, hold.Context() == ctx && hold.Valid(), "it is not held")
				return end.work(ctx)
			})
		}()
		synctest.Wait()
		if s.says("granted", s.fresh()); name == "lost" {
			s.says("lost", said{"reason": "TAKEN"})
		}
		cancel()
		err := <-over
		want(s, end.isWanted(err), err)
		s.wantSent("hold", "release 1")
		s.wantAlive()
	})
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
	wantIs(s, errOf(hold.Save(s.Context(), nil)), ErrReleased)
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
	wantIs(s, as[*ReleaseUnconfirmedError](s, (<-released).err), context.Canceled)
	s.always("release", said{"outcome": "ALREADY_LOST", "loss": "TAKEN"})
	result, err := hold.Release(s.Context())
	want(s, as[*LostError](s, err) == hold.Loss() && result.LossReason == LossReasonTaken, result, err)
	s.wantSent("hold", "release 1", "release 1")
}

func (stories) S13ClosingTheClientReleasesWhatIsHeldAndThenEndsTheConnections(s *stage) {
	hold := s.holds()
	ok(s, s.client.Close())
	s.wantLoss(hold, LossReasonUnspecified)
	s.wantSent("hold", "release 1")
	s.wantAlive()
	want(s, s.open.Load() == 0, "a connection is left")
	wantIs(s, errOf(s.client.Hold(s.Context(), LeaseSpec{})), ErrClosed)
	ok(s, s.client.Close())
}

func (stories) S13WhatIsGrantedToAClientThatIsClosedMeanwhileIsLost(s *stage) {
	ok(s, s.client.Close())
	ctx, cancel := context.WithCancel(s.Context())
	granted := &place{s.client.pool, s.client.pool.general}
	k := &keeper{client: s.client, place: granted, grant: granting("ours", s.fresh()), ctx: ctx, cancel: cancel}
	k.state = newHoldState(s, k.grant, k.grant, s.now())
	s.wantLoss(k.begin(s.Context(), func(*Hold) {}), LossReasonUnspecified)
	want(s, ctx.Err() != nil, "its stream goes on")
}

func (stories) ClosingTellsOfAReleaseThatNobodyAnswers(s *stage) {
	s.always("release", nil)
	s.holds()
	err := as[*ReleaseUnconfirmedError](s, s.client.Close())
	want(s, strings.Contains(err.Error(), "did not answer within 10s") && s.clock() == 10_000, err, s.clock())
}

func TestClosingWaitsForReleasesAndCompletionsThatAreUnderWayAsLongAsAReleaseMayTake(t *testing.T) {
	for call, begin := range map[string]func(s *stage) func() error{
		"release": func(s *stage) func() error {
			hold := s.holds()
			return func() error { return errOf(hold.Release(s.Context())) }
		},
		"complete_run": func(s *stage) func() error {
			run := s.running()
			return func() error { return errOf(run.Succeed(s.Context())) }
		},
		// Of a lock that was acquired by a unary call.
		"release 0": func(s *stage) func() error {
			return func() error { return errOf(s.client.Release(s.Context(), "lease-1")) }
		},
	} {
		for _, isAnswered := range []bool{true, false} {
			staged(t, func(s *stage) {
				end, name := begin(s), strings.Fields(call)[0]
				answer := s.answers[name]
				s.always(name, nil)
				ended := ending(end)
				closed := ending(s.client.Close)
				s.pass(9_999)
				want(s, len(closed) == 0 && len(ended) == 0, call, "was cut short")
				if isAnswered {
					s.give(name, answer)
				}
				ok(s, (<-closed).err)
				err := (<-ended).err
				want(s, (err == nil) == isAnswered && (s.clock() == 9_999) == isAnswered, call, err, s.clock())
			})
		}
	}
}

// grantsWith grants over the newest stream, with a checkpoint.
func (s *stage) grantsWith(of said, checkpoint *leaseholdv1.Checkpoint) {
	word := s.word(s.on(0), "granted", of).(*leaseholdv1.HoldLeaseResponse)
	word.GetGranted().Checkpoint, word.GetGranted().Permit = checkpoint, 3
	s.on(0).said <- word
}

func (stories) S25TheCheckpointOfAGrantIsACopyOfItsOwn(s *stage) {
	asked := s.asks(s.Context(), LeaseSpec{})
	s.grantsWith(s.fresh(), &leaseholdv1.Checkpoint{Value: []byte(`{"n":7}`), Version: 12, FencingToken: 11})
	hold := (<-asked).value
	checkpoint := hold.Checkpoint()
	var value struct{ N int }
	err := checkpoint.JSON(&value)
	want(s, err == nil && value.N == 7 && hold.Permit() == 3 && checkpoint.FencingToken == 11, value, err, checkpoint)
	checkpoint.Value[0] = '!'
	want(s, string(hold.Checkpoint().Value) == `{"n":7}` && checkpoint.JSON(&value) != nil, "the hold's own value was changed")
	saved := []byte("seven")
	version, err := hold.Save(s.Context(), saved)
	want(s, err == nil && version == 1, version, err)
	saved[0] = '!'
	checkpoint = hold.Checkpoint()
	want(s, string(checkpoint.Value) == "seven" && checkpoint.FencingToken == 65_536, checkpoint)
	ok(s, errOf(hold.SaveJSON(s.Context(), map[string]int{"n": 8})))
	want(s, errOf(hold.SaveJSON(s.Context(), func() {})) != nil, "a function is no JSON")
	s.wantSent("hold", "save_checkpoint 1 seven", `save_checkpoint 1 {"n":8}`)
	s.releases(hold)
	want(s, s.holds().Checkpoint() == nil, "there is none")
}

func (stories) S27ASaveWithoutAnAnswerHasAnUnknownOutcomeAndARefusedOneHasNot(s *stage) {
	hold := s.holds()
	for of, isUnknown := range map[refusing]bool{
		{Code: "UNAVAILABLE", Reason: "CHECKPOINT_UNKNOWN"}: true,
		{Code: "UNAVAILABLE", Reason: "STORE_UNAVAILABLE"}:  false,
		{Code: "UNAVAILABLE"}:                               true,
		{Code: "DEADLINE_EXCEEDED"}:                         true,
	} {
		s.always("save_checkpoint", of.err())
		_, failed := hold.Save(s.Context(), []byte("v"))
		as[*RefusedError](s, failed)
		var unknown *CheckpointUnknownError
		want(s, errors.As(failed, &unknown) == isUnknown, of, failed)
	}
	s.always("save_checkpoint", nil)
	as[*CheckpointUnknownError](s, errOf(hold.Save(s.Context(), nil)))
	want(s, s.clock() == 63_000, "S26: a save is answered when the validity ends, or soon after:", s.clock())
	hold = s.holds()
	s.always("save_checkpoint", status.Error(codes.Unimplemented, ""))
	refused := as[*RefusedError](s, errOf(hold.Save(s.Context(), nil)))
	want(s, refused.Reason == ReasonUnsupported && strings.Contains(refused.Error(), "does not know checkpoints"), refused)
	want(s, hold.Checkpoint() == nil, "it is not known to be saved")
}

func (stories) S14ATryToResumeThatHearsNothingIsKeptUntilAnotherHasWorked(s *stage) {
	s.holds()
	s.says("renewed", said{"until": 300_000, "for": 300_000})
	s.breaks(0, errGone)
	s.pass(90_050)
	s.wantAlive(2, 3)
	s.says("granted", s.fresh())
	s.wantAlive(3)
}

func (stories) S16ACallThatWaitsForAResumeEndsWithItsContext(s *stage) {
	hold := s.holds()
	s.always("report_progress", nil)
	impatient, cancel := context.WithCancel(s.Context())
	reported := ending(func() error { return hold.ReportProgress(impatient) })
	s.breaks(0, errGone)
	saved := later(func() (uint64, error) { return hold.Save(impatient, nil) })
	s.give("report_progress", refusing{Code: "FAILED_PRECONDITION", Reason: "HOLD_LOST", Loss: "TAKEN"}.err())
	s.pass(1_000)
	cancel()
	for _, err := range []error{(<-reported).err, (<-saved).err} {
		want(s, errors.Is(err, context.Canceled) && hold.Valid(), err, hold.Loss())
	}
	s.wantSent("hold", "report_progress 1", "resume resume-1 told 58000 attempt 1")
}

func (stories) S26AnOlderSaveThatIsAnsweredLaterIsNotTheCheckpointAndWhatAResumeTellsIs(s *stage) {
	hold := s.holds()
	first, second := hold.state.beginSave(), hold.state.beginSave()
	hold.savedAs(second, []byte("second"), 5)
	hold.savedAs(first, []byte("first"), 5)
	value := string(hold.Checkpoint().Value)
	want(s, value == "second", value)
	// S27: a save may have lost its answer.
	for _, stored := range []struct {
		version uint64
		wanted  string
	}{{4, "second"}, {6, "stored"}} {
		s.breaks(0, errGone)
		s.grantsWith(s.fresh(), &leaseholdv1.Checkpoint{Value: []byte("stored"), Version: stored.version})
		s.wantTold("interrupted", "resumed")
		value := string(hold.Checkpoint().Value)
		want(s, value == stored.wanted, stored, value)
	}
}
