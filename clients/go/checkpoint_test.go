package leasehold

import (
	"context"
	"errors"
	"strings"
	"testing"

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

func TestS25TheCheckpointOfAGrantIsACopyOfItsOwn(t *testing.T) {
	staged(t, func(s *stage) {
		asked := s.asks(s.Context(), LeaseSpec{})
		s.grantsWith(s.fresh(), &leaseholdv1.Checkpoint{Value: []byte(`{"n":7}`), Version: 12, FencingToken: 11})
		hold := (<-asked).value
		checkpoint := hold.Checkpoint()
		var value struct{ N int }
		if err := checkpoint.JSON(&value); err != nil || value.N != 7 || hold.Permit() != 3 || checkpoint.FencingToken != 11 {
			t.Error(value, err, checkpoint)
		}
		checkpoint.Value[0] = '!'
		if string(hold.Checkpoint().Value) != `{"n":7}` || checkpoint.JSON(&value) == nil {
			t.Error("the hold's own value was changed")
		}
		saved := []byte("seven")
		if version, err := hold.Save(s.Context(), saved); err != nil || version != 1 {
			t.Error(version, err)
		}
		saved[0] = '!'
		if checkpoint := hold.Checkpoint(); string(checkpoint.Value) != "seven" || checkpoint.FencingToken != 65_536 {
			t.Error(checkpoint)
		}
		if _, err := hold.SaveJSON(s.Context(), map[string]int{"n": 8}); err != nil {
			t.Error(err)
		}
		if _, err := hold.SaveJSON(s.Context(), func() {}); err == nil {
			t.Error("a function is no JSON")
		}
		s.wantSent("hold", "save_checkpoint 1 seven", `save_checkpoint 1 {"n":8}`)
		s.releases(hold)
		if s.holds().Checkpoint() != nil {
			t.Error("there is none")
		}
	})
}

func TestS27ASaveWithoutAnAnswerHasAnUnknownOutcomeAndARefusedOneHasNot(t *testing.T) {
	staged(t, func(s *stage) {
		hold := s.holds()
		for of, isUnknown := range map[refusing]bool{
			{Code: "UNAVAILABLE", Reason: "CHECKPOINT_UNKNOWN"}: true,
			{Code: "UNAVAILABLE", Reason: "STORE_UNAVAILABLE"}:  false,
			{Code: "UNAVAILABLE"}:                               true,
			{Code: "DEADLINE_EXCEEDED"}:                         true,
		} {
			s.always("save_checkpoint", of.err())
			_, failed := hold.Save(s.Context(), []byte("v"))
			as[*RefusedError](t, failed)
			var unknown *CheckpointUnknownError
			if errors.As(failed, &unknown) != isUnknown {
				t.Error(of, failed)
			}
		}
		s.always("save_checkpoint", nil)
		_, err := hold.Save(s.Context(), nil)
		if as[*CheckpointUnknownError](t, err); s.clock() != 63_000 {
			t.Error("S26: a save is answered when the validity ends, or soon after:", s.clock())
		}
		hold = s.holds()
		s.always("save_checkpoint", status.Error(codes.Unimplemented, ""))
		if _, err := hold.Save(s.Context(), nil); as[*RefusedError](t, err).Reason != ReasonUnsupported ||
			!strings.Contains(err.Error(), "does not know checkpoints") {
			t.Error(err)
		}
		if hold.Checkpoint() != nil {
			t.Error("it is not known to be saved")
		}
	})
}

func TestS16ACallThatWaitsForAResumeEndsWithItsContextAndASaveWithTheHold(t *testing.T) {
	staged(t, func(s *stage) {
		hold := s.holds()
		s.always("report_progress", nil)
		impatient, cancel := context.WithCancel(s.Context())
		reported := later(func() (any, error) { return nil, hold.ReportProgress(impatient) })
		s.breaks(errGone)
		saved := later(func() (uint64, error) { return hold.Save(impatient, nil) })
		s.give("report_progress", refusing{Code: "FAILED_PRECONDITION", Reason: "HOLD_LOST", Loss: "TAKEN"}.err())
		s.pass(1_000)
		cancel()
		for _, err := range []error{(<-reported).err, (<-saved).err} {
			if !errors.Is(err, context.Canceled) || !hold.Valid() {
				t.Error(err, hold.Loss())
			}
		}
		_, err := hold.Save(s.Context(), nil)
		if as[*LostError](t, err).Reason != LossReasonExpired {
			t.Error(err)
		}
		s.wantSent("hold", "report_progress 1", "resume resume-1 told 58000 attempt 1")
	})
}

func TestS26AnOlderSaveThatIsAnsweredLaterIsNotTheCheckpointAndWhatAResumeTellsIs(t *testing.T) {
	staged(t, func(s *stage) {
		hold := s.holds()
		first, second := hold.state.beginSave(), hold.state.beginSave()
		hold.savedAs(second, []byte("second"), 5)
		hold.savedAs(first, []byte("first"), 5)
		if value := string(hold.Checkpoint().Value); value != "second" {
			t.Error(value)
		}
		// S27: a save may have lost its answer.
		for _, stored := range []struct {
			version uint64
			wanted  string
		}{{4, "second"}, {6, "stored"}} {
			s.breaks(errGone)
			limit := s.clock() + int64(stored.version)*100_000
			of := s.fresh()
			of.MaxHold = &instant{limit, limit - s.clock()}
			s.grantsWith(of, &leaseholdv1.Checkpoint{Value: []byte("stored"), Version: stored.version})
			s.wantTold("interrupted", "resumed")
			ends, _ := hold.MaxHoldEnds()
			if value := string(hold.Checkpoint().Value); value != stored.wanted || sinceBase(ends) != limit {
				t.Error(stored, value, ends)
			}
		}
	})
}
