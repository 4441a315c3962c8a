package leasehold

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// grantedBy is a hold whose grant a test has changed.
func (b *bench) grantedBy(validity *leaseholdv1.Validity, change func(*leaseholdv1.Grant)) (*Hold, *holdCall) {
	b.Helper()
	answer := b.ask(b.Context(), LeaseSpec{})
	call := b.call()
	event := granted(validity)
	change(event.GetGranted())
	call.tell(event)
	asked := receive(b.T, "the hold", answer)
	if asked.err != nil {
		b.Fatal(asked.err)
	}
	return asked.hold, call
}

func wantLimit(t *testing.T, hold *Hold, seconds int) {
	t.Helper()
	if ends, limited := hold.MaxHoldEnds(); !limited || ends != at(seconds) {
		t.Errorf("%v, %v, not %d s", ends.SinceBoot(), limited, seconds)
	}
}

func TestS11AGrantSaysWhenMaxHoldEndsByTheSidecarsClockWhereThatIsOurs(t *testing.T) {
	b := newBench(t)
	unlimited, _, _ := b.heldHere()
	if _, limited := unlimited.MaxHoldEnds(); limited {
		t.Error("there is no limit")
	}
	hold, call := b.grantedBy(validity(ours, 1_058, 58), func(grant *leaseholdv1.Grant) {
		grant.MaxHoldEnds = deadline(ours, 1_300, 300)
	})
	wantLimit(t, hold, 1_300)
	event := renewed(validity(ours, 1_058, 58))
	event.GetRenewed().MaxHoldEnds = deadline(ours, 1_400, 400)
	call.tell(event)
	eventually(t, "the new limit is taken in", func() bool {
		ends, _ := hold.MaxHoldEnds()
		return ends == at(1_400)
	})
}

func TestS21ElsewhereTheEndOfMaxHoldCountsFromBeforeTheRequest(t *testing.T) {
	b := newBench(t)
	// It is the question's answer that counts after a long wait, and not the grant.
	b.answerReports(validity(elsewhere, 95, 57), nil)
	b.sidecar.limit = deadline(elsewhere, 390, 300)
	answer := b.ask(t.Context(), LeaseSpec{})
	call := b.call()
	b.clock.advance(500)
	event := granted(validity(elsewhere, 70, 58))
	event.GetGranted().MaxHoldEnds = deadline(elsewhere, 399, 350)
	call.tell(event)
	hold := receive(t, "the hold", answer).hold
	wantLimit(t, hold, 1_800)
}

func TestS21ElsewhereAnEndOfMaxHoldThatAnswersNothingCountsNothing(t *testing.T) {
	b := newBench(t)
	hold, _ := b.grantedBy(validity(elsewhere, 70, 58), func(grant *leaseholdv1.Grant) {
		grant.MaxHoldEnds = deadline(elsewhere, 399, 300)
	})
	hold.state.takeInLimit(deadline(elsewhere, 9_999, 9_000), nil)
	wantLimit(t, hold, 1_300)
}

func TestAGrantHasThePermitAndTheCheckpoint(t *testing.T) {
	b := newBench(t)
	saved := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	hold, _ := b.grantedBy(validity(ours, 1_058, 58), func(grant *leaseholdv1.Grant) {
		grant.Permit = 3
		grant.Checkpoint = &leaseholdv1.Checkpoint{
			Value: []byte(`{"n":7}`), Version: 12, FencingToken: 11, SavedAt: timestamppb.New(saved),
		}
	})
	checkpoint := hold.Checkpoint()
	var value struct{ N int }
	if err := checkpoint.JSON(&value); err != nil || value.N != 7 {
		t.Error(value, err)
	}
	if hold.Permit() != 3 || checkpoint.Version != 12 || checkpoint.FencingToken != 11 || checkpoint.SavedAt != saved {
		t.Error(hold.Permit(), checkpoint)
	}
	checkpoint.Value[0] = '!'
	if string(hold.Checkpoint().Value) != `{"n":7}` {
		t.Error("the hold's own value was changed")
	}
	without, _, _ := b.heldHere()
	if without.Checkpoint() != nil {
		t.Error("there is none")
	}
	if err := (&Checkpoint{Value: []byte("plain")}).JSON(&value); err == nil {
		t.Error("it is no JSON")
	}
}
