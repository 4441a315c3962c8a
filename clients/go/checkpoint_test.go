package leasehold

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

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
	_, err = hold.SaveJSON(s.Context(), func() {})
	want(s, err != nil, "a function is no JSON")
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
	_, err := hold.Save(s.Context(), nil)
	as[*CheckpointUnknownError](s, err)
	want(s, s.clock() == 63_000, "S26: a save is answered when the validity ends, or soon after:", s.clock())
	hold = s.holds()
	s.always("save_checkpoint", status.Error(codes.Unimplemented, ""))
	_, err = hold.Save(s.Context(), nil)
	want(s, as[*RefusedError](s, err).Reason == ReasonUnsupported && strings.Contains(err.Error(), "does not know checkpoints"),
		err)
	want(s, hold.Checkpoint() == nil, "it is not known to be saved")
}

func (stories) S16ACallThatWaitsForAResumeEndsWithItsContextAndASaveWithTheHold(s *stage) {
	hold := s.holds()
	s.always("report_progress", nil)
	impatient, cancel := context.WithCancel(s.Context())
	reported := later(func() (any, error) { return nil, hold.ReportProgress(impatient) })
	s.breaks(0, errGone)
	saved := later(func() (uint64, error) { return hold.Save(impatient, nil) })
	s.give("report_progress", refusing{Code: "FAILED_PRECONDITION", Reason: "HOLD_LOST", Loss: "TAKEN"}.err())
	s.pass(1_000)
	cancel()
	for _, err := range []error{(<-reported).err, (<-saved).err} {
		want(s, errors.Is(err, context.Canceled) && hold.Valid(), err, hold.Loss())
	}
	_, err := hold.Save(s.Context(), nil)
	want(s, as[*LostError](s, err).Reason == LossReasonExpired, err)
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
		limit := s.clock() + int64(stored.version)*100_000
		of := s.fresh()
		of.MaxHold = &instant{limit, limit - s.clock()}
		s.grantsWith(of, &leaseholdv1.Checkpoint{Value: []byte("stored"), Version: stored.version})
		s.wantTold("interrupted", "resumed")
		ends, _ := hold.MaxHoldEnds()
		value := string(hold.Checkpoint().Value)
		want(s, value == stored.wanted && sinceBase(ends) == limit, stored, value, ends)
	}
}
