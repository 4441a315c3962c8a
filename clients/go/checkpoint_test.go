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

func TestS25TheCheckpointOfAGrantIsACopyOfItsOwn(t *testing.T) {
	b := newBench(t)
	answer := b.ask(t.Context(), LeaseSpec{})
	told := grantedHere()
	told.GetGranted().Permit = 3
	told.GetGranted().Checkpoint = &leaseholdv1.Checkpoint{Value: []byte(`{"n":7}`), Version: 12, FencingToken: 11}
	b.call().tell(told)
	hold := b.got(answer)
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
	if version, err := hold.Save(t.Context(), saved); err != nil || version != 1 {
		t.Error(version, err)
	}
	saved[0] = '!'
	if checkpoint := hold.Checkpoint(); string(checkpoint.Value) != "seven" || checkpoint.FencingToken != 65_536 {
		t.Error(checkpoint)
	}
	if _, err := hold.SaveJSON(t.Context(), map[string]int{"n": 8}); err != nil {
		t.Error(err)
	}
	if _, err := hold.SaveJSON(t.Context(), func() {}); err == nil {
		t.Error("a function is no JSON")
	}
	b.sidecar.wantCalls(t, `SaveCheckpoint lease-1 1 "seven"`, `SaveCheckpoint lease-1 1 "{\"n\":8}"`)
	if without, _, _ := b.held(); without.Checkpoint() != nil {
		t.Error("there is none")
	}
}

func TestS27ASaveWithoutAnAnswerHasAnUnknownOutcomeAndARefusedOneHasNot(t *testing.T) {
	b := newBench(t)
	hold, _, _ := b.held()
	for err, isUnknown := range map[error]bool{
		reasoned(codes.Unavailable, "CHECKPOINT_UNKNOWN", nil): true,
		reasoned(codes.Unavailable, "STORE_UNAVAILABLE", nil):  false,
		status.Error(codes.Unavailable, "EOF"):                 true,
		status.Error(codes.DeadlineExceeded, "EOF"):            true,
	} {
		fails[leaseholdv1.SaveCheckpointRequest](b.sidecar, err)
		_, failed := hold.Save(t.Context(), []byte("v"))
		as[*RefusedError](t, failed)
		var unknown *CheckpointUnknownError
		if errors.As(failed, &unknown) != isUnknown {
			t.Error(err, failed)
		}
	}
	fails[leaseholdv1.SaveCheckpointRequest](b.sidecar, status.Error(codes.Unimplemented, ""))
	if _, err := hold.Save(t.Context(), nil); as[*RefusedError](t, err).Reason != ReasonUnsupported ||
		!strings.Contains(err.Error(), "does not know checkpoints") {
		t.Error(err)
	}
	if hold.Checkpoint() != nil {
		t.Error("it is not known to be saved")
	}
}

func TestS16ASaveThatWaitsForAResumeEndsWithItsContextAndWithTheHold(t *testing.T) {
	b := newBench(t)
	hold, call, events := b.held()
	call.fail(errGone)
	want[Interrupted](t, events)
	b.call()
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := hold.Save(impatient, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	b.clock.advance(58)
	if _, err := hold.Save(t.Context(), nil); as[*LostError](t, err).Reason != LossReasonExpired {
		t.Error(err)
	}
	b.sidecar.wantCalls(t)
}

func TestS26AnOlderSaveThatIsAnsweredLaterIsNotTheCheckpointAndWhatAResumeTellsIs(t *testing.T) {
	b := newBench(t)
	hold, call, events := b.held()
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
		call.fail(errGone)
		want[Interrupted](t, events)
		limit := int64(stored.version) * 100_000
		told := event("granted", said{Until: 58_000, For: 58_000, MaxHold: &struct{ At, After int64 }{limit, limit}})
		told.GetGranted().Checkpoint = &leaseholdv1.Checkpoint{Value: []byte("stored"), Version: stored.version}
		call = b.call()
		call.tell(told)
		want[Resumed](t, events)
		ends, _ := hold.MaxHoldEnds()
		if value := string(hold.Checkpoint().Value); value != stored.wanted || ends != at(1_000+100*int(stored.version)) {
			t.Error(stored, value, ends)
		}
	}
}
