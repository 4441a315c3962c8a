package leasehold

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// savedAs answers each save with a version, and a validity on our clock.
func (b *bench) savedAs(version uint64, validity *leaseholdv1.Validity) {
	b.sidecar.save = func([]byte) (*leaseholdv1.SaveCheckpointResponse, error) {
		return &leaseholdv1.SaveCheckpointResponse{Version: version, Validity: validity}, nil
	}
}

// reasoned is an error of a sidecar with a reason.
func reasoned(t *testing.T, code codes.Code, reason string) error {
	t.Helper()
	st, err := status.New(code, "so it is").WithDetails(&errdetails.ErrorInfo{Domain: reasonDomain, Reason: reason})
	if err != nil {
		t.Fatal(err)
	}
	return st.Err()
}

func TestS24ASaveGivesItsVersionAndIsTheHoldsCheckpoint(t *testing.T) {
	b := newBench(t)
	hold, _, _ := b.heldHere()
	b.savedAs(9, validity(ours, 1_060, 60))
	value := []byte("seven")
	version, err := hold.Save(t.Context(), value)
	if err != nil || version != 9 {
		t.Fatal(version, err)
	}
	value[0] = '!'
	checkpoint := hold.Checkpoint()
	if string(checkpoint.Value) != "seven" || checkpoint.Version != 9 || checkpoint.FencingToken != 65_536 {
		t.Error(checkpoint)
	}
	// Its validity answers a request of our own (S21).
	if hold.Remaining() != 60*time.Second {
		t.Error(hold.Remaining())
	}
	if version, err := hold.SaveJSON(t.Context(), map[string]int{"n": 8}); err != nil || version != 9 {
		t.Error(version, err)
	}
	if _, err := hold.SaveJSON(t.Context(), func() {}); err == nil {
		t.Error("a function is no JSON")
	}
	wanted := `save "seven" of lease-1, generation 1; save "{\"n\":8}" of lease-1, generation 1`
	if calls := strings.Join(b.sidecar.calls(), "; "); calls != wanted {
		t.Error(calls)
	}
}

func TestS21ElsewhereTheValidityOfASaveCountsFromBeforeIt(t *testing.T) {
	b := newBench(t)
	hold, _, _ := b.held(validity(elsewhere, 70, 58))
	b.clock.advance(5)
	b.savedAs(1, validity(elsewhere, 75, 58))
	if _, err := hold.Save(t.Context(), nil); err != nil || hold.ValidUntil() != at(1_063) {
		t.Error(err, hold.ValidUntil().SinceBoot())
	}
}

func TestS23ACheckpointThatIsTooLargeIsRefusedHereAndNothingIsDone(t *testing.T) {
	b := newBench(t)
	hold, _, _ := b.heldHere()
	b.savedAs(1, nil)
	if _, err := hold.Save(t.Context(), make([]byte, 2_048)); err != nil {
		t.Error(err)
	}
	large := bytes.Repeat([]byte("x"), 2_049)
	calls := map[string]func() error{
		"value":      func() error { _, err := hold.Save(t.Context(), large); return err },
		"checkpoint": func() error { _, err := hold.Release(t.Context(), WithCheckpoint(large)); return err },
	}
	for field, call := range calls {
		var refused *RefusedError
		err := call()
		if !errors.As(err, &refused) || refused.Reason != ReasonInvalidField || refused.Violations[0].Field != field ||
			!strings.Contains(err.Error(), "2049") {
			t.Error(err)
		}
	}
	if calls := b.sidecar.calls(); len(calls) != 1 || !hold.Valid() {
		t.Error(calls, hold.Loss())
	}
}

func TestS24ASaveOfAHoldThatIsOverFails(t *testing.T) {
	b := newBench(t)
	hold, _, _ := b.heldHere()
	b.sidecar.save = func([]byte) (*leaseholdv1.SaveCheckpointResponse, error) { return nil, holdLost(t, "TAKEN") }
	for range 2 {
		var lost *LostError
		if _, err := hold.Save(t.Context(), nil); !errors.As(err, &lost) || lost.Reason != LossReasonTaken {
			t.Error(err)
		}
	}
	if calls := b.sidecar.calls(); len(calls) != 1 {
		t.Error("a lost hold asked again:", calls)
	}
	released, _, _ := b.heldHere()
	if _, err := released.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := released.Save(t.Context(), nil); !errors.Is(err, ErrReleased) {
		t.Error(err)
	}
}

func TestS27ASaveOfUnknownOutcomeIsAnErrorOfItsOwn(t *testing.T) {
	b := newBench(t)
	hold, _, _ := b.heldHere()
	b.sidecar.save = func([]byte) (*leaseholdv1.SaveCheckpointResponse, error) {
		return nil, reasoned(t, codes.Unavailable, "CHECKPOINT_UNKNOWN")
	}
	var unknown *CheckpointError
	var refused *RefusedError
	_, err := hold.Save(t.Context(), []byte("v"))
	if !errors.As(err, &unknown) || unknown.Outcome != CheckpointOutcomeUnknown || !errors.As(err, &refused) {
		t.Error(err)
	}
	if hold.Checkpoint() != nil {
		t.Error("it is not known to be saved")
	}
}

func TestS27ASaveThatIsNotAnsweredHasAnUnknownOutcome(t *testing.T) {
	b := newBench(t)
	hold, _, _ := b.heldHere()
	for _, code := range []codes.Code{codes.Unavailable, codes.DeadlineExceeded} {
		b.sidecar.save = func([]byte) (*leaseholdv1.SaveCheckpointResponse, error) {
			return nil, status.Error(code, "error reading from server: EOF")
		}
		var unknown *CheckpointError
		var refused *RefusedError
		_, err := hold.Save(t.Context(), []byte("v"))
		if !errors.As(err, &unknown) || unknown.Outcome != CheckpointOutcomeUnknown || !errors.As(err, &refused) ||
			!strings.Contains(err.Error(), "EOF") {
			t.Error(code, err)
		}
	}
}

func TestASaveThatTheSidecarRefusesIsNotUnknown(t *testing.T) {
	b := newBench(t)
	hold, _, _ := b.heldHere()
	b.sidecar.save = func([]byte) (*leaseholdv1.SaveCheckpointResponse, error) {
		return nil, reasoned(t, codes.Unavailable, "STORE_UNAVAILABLE")
	}
	var unknown *CheckpointError
	var refused *RefusedError
	if _, err := hold.Save(t.Context(), nil); errors.As(err, &unknown) || !errors.As(err, &refused) {
		t.Error(err)
	}
}

func TestS16ASaveWaitsForTheResumeAndCarriesTheNewGeneration(t *testing.T) {
	b := newBench(t)
	b.savedAs(2, nil)
	hold, call, events := b.heldHere()
	call.fail(errGone)
	want[Interrupted](t, events)
	call = b.call()
	saved := make(chan error, 1)
	go func() {
		_, err := hold.Save(t.Context(), []byte("v"))
		saved <- err
	}()
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	if generation, err := hold.resumed(impatient); !errors.Is(err, context.Canceled) {
		t.Error("it did not wait:", generation, err)
	}
	call.tell(resumedAs(2))
	if err := receive(t, "the end of the save", saved); err != nil {
		t.Error(err)
	}
	if calls := strings.Join(b.sidecar.calls(), "; "); calls != `save "v" of lease-1, generation 2` {
		t.Error(calls)
	}
}

func TestS16ASaveThatWaitsForAResumeEndsWithTheHold(t *testing.T) {
	b := newBench(t)
	hold, call, events := b.heldHere()
	call.fail(errGone)
	want[Interrupted](t, events)
	b.call()
	b.clock.advance(58)
	var lost *LostError
	if _, err := hold.Save(t.Context(), nil); !errors.As(err, &lost) || lost.Reason != LossReasonExpired {
		t.Error(err)
	}
}

func TestS26AnOlderSaveThatIsAnsweredLaterIsNotTheCheckpoint(t *testing.T) {
	b := newBench(t)
	hold, _, _ := b.heldHere()
	first, second := hold.state.beginSave(), hold.state.beginSave()
	hold.savedAs(second, []byte("second"), 5)
	hold.savedAs(first, []byte("first"), 5)
	if value := string(hold.Checkpoint().Value); value != "second" {
		t.Error(value)
	}
}

func TestS27AResumeTellsWhatASaveWithoutAnAnswerStored(t *testing.T) {
	b := newBench(t)
	hold, call, events := b.heldHere()
	call.fail(errGone)
	want[Interrupted](t, events)
	event := resumedAs(2)
	event.GetGranted().Checkpoint = &leaseholdv1.Checkpoint{Value: []byte("stored"), Version: 3}
	b.call().tell(event)
	want[Resumed](t, events)
	if checkpoint := hold.Checkpoint(); checkpoint == nil || string(checkpoint.Value) != "stored" {
		t.Error(checkpoint)
	}
}

func TestS26AReleaseSavesItsCheckpointAndTellsBothOutcomes(t *testing.T) {
	outcomes := map[CheckpointOutcome]*leaseholdv1.ReleaseResult{
		CheckpointOutcomeSaved: {
			CheckpointOutcome: leaseholdv1.CheckpointOutcome_CHECKPOINT_OUTCOME_SAVED, CheckpointVersion: 7,
		},
		CheckpointOutcomeNotSaved: {
			CheckpointOutcome: leaseholdv1.CheckpointOutcome_CHECKPOINT_OUTCOME_NOT_SAVED, CheckpointDetail: "why",
		},
		CheckpointOutcomeUnknown: {
			CheckpointOutcome: leaseholdv1.CheckpointOutcome_CHECKPOINT_OUTCOME_UNKNOWN, CheckpointDetail: "why",
		},
	}
	for outcome, told := range outcomes {
		t.Run(string(outcome), func(t *testing.T) {
			b := newBench(t)
			told.Outcome = leaseholdv1.ReleaseOutcome_RELEASE_OUTCOME_RELEASED
			b.sidecar.released = told
			hold, _, _ := b.heldHere()
			result, err := hold.Release(t.Context(), WithCheckpoint(nil))
			if result.Outcome != ReleaseOutcomeReleased || result.CheckpointOutcome != outcome {
				t.Error(result)
			}
			var failed *CheckpointError
			if errors.As(err, &failed) != (outcome != CheckpointOutcomeSaved) ||
				(failed != nil && (failed.Outcome != outcome || failed.Detail != "why")) {
				t.Error(err)
			}
			if checkpoint := hold.Checkpoint(); (checkpoint != nil) != (outcome == CheckpointOutcomeSaved) ||
				(checkpoint != nil && checkpoint.Version != 7) {
				t.Error(checkpoint)
			}
			// An empty value is saved, too, and a repeated release gives the same.
			if again, repeated := hold.Release(t.Context()); again != result || repeated != err {
				t.Error(again, repeated)
			}
			if calls := strings.Join(b.sidecar.calls(), "; "); calls != `release lease-1 of generation 1 saving ""` {
				t.Error(calls)
			}
		})
	}
}

func TestS37AReleaseThatSaysNothingOfItsCheckpointHasNotSavedIt(t *testing.T) {
	b := newBench(t)
	var failed *CheckpointError
	result, err := b.client.Release(t.Context(), "lease-1", WithCheckpoint([]byte("v")))
	if !errors.As(err, &failed) || failed.Outcome != CheckpointOutcomeNotSaved || !strings.Contains(err.Error(), "older") ||
		result.Outcome != ReleaseOutcomeReleased {
		t.Error(result, err)
	}
	hold, _, _ := b.heldHere()
	b.clock.advance(58)
	var lost *LostError
	result, err = hold.Release(t.Context(), WithCheckpoint([]byte("v")))
	if !errors.As(err, &lost) || result.CheckpointOutcome != CheckpointOutcomeNotSaved {
		t.Error(result, err)
	}
}

func TestACheckpointIsSavedAndReadWithoutAStream(t *testing.T) {
	b := newBench(t)
	b.savedAs(4, validity(ours, 1_058, 58))
	if version, err := b.client.SaveCheckpoint(t.Context(), "lease-9", []byte("v")); err != nil || version != 4 {
		t.Error(version, err)
	}
	b.sidecar.record = &leaseholdv1.LockRecord{Checkpoint: &leaseholdv1.Checkpoint{Value: []byte("v"), Version: 4}}
	checkpoint, err := b.client.GetCheckpoint(t.Context(), LockPath("l"))
	if err != nil || string(checkpoint.Value) != "v" {
		t.Error(checkpoint, err)
	}
	wanted := `save "v" of lease-9, generation 0; get l with checkpoint true`
	if calls := strings.Join(b.sidecar.calls(), "; "); calls != wanted {
		t.Error(calls)
	}
}
