package leasehold

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

func TestAHoldTellsItsGrant(t *testing.T) {
	b := newBench(t)
	hold, call, _ := b.heldHere()
	if key := call.request.GetSpec().GetKey(); key.GetFunction() != "f" || key.GetScope() != "s" {
		t.Error(key)
	}
	if hold.FencingToken() != 65_536 || hold.LeaseID() != "lease-1" || hold.LockPath() != "locks/p/h/f/s/FUNCTION" ||
		hold.HostID() != "h" || hold.ValidUntil() != at(1_058) || hold.Remaining() != 58*time.Second || !hold.Valid() {
		t.Error(hold)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if shown := fmt.Sprintf(format, hold); strings.Contains(shown, "lease-1") || strings.Contains(shown, "resume-1") {
			t.Errorf("S20: %s shows %s", format, shown)
		}
	}
}

func TestBusyIsATypedError(t *testing.T) {
	b := newBench(t)
	answer := b.ask(t.Context(), LeaseSpec{Key: LockKey{Function: "f"}})
	call := b.call()
	call.tell(waitingAt(1))
	call.tell(busyWith("somebody"))
	var busy *BusyError
	if err := receive(t, "the answer", answer).err; !errors.As(err, &busy) || !strings.Contains(err.Error(), "somebody") {
		t.Fatal(err)
	}
	if busy.Busy.Record.Holder != "somebody" {
		t.Error(busy.Busy)
	}
}

func TestS14NoDeadlineOfTheCallerGoesWithTheStream(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	answer := b.ask(ctx, LeaseSpec{})
	call := b.call()
	call.tell(granted(validity(ours, 1_058, 58)))
	if err := receive(t, "the hold", answer).err; err != nil || call.hasDeadline {
		t.Error(err, call.hasDeadline)
	}
}

func TestACallerThatGivesUpLeavesTheQueue(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	answer := b.ask(ctx, LeaseSpec{})
	call := b.call()
	call.tell(waitingAt(1))
	why := errors.New("no time left")
	cancel(why)
	if err := receive(t, "the answer", answer).err; !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
		t.Error(err)
	}
	receive(t, "the end of the stream", call.over)
}

func TestS14ACancelledCallerStillHoldsUntilItReleases(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	answer := b.ask(ctx, LeaseSpec{})
	call := b.call()
	call.tell(granted(validity(ours, 1_058, 58)))
	hold := receive(t, "the hold", answer).hold
	cancel()
	receive(t, "the end of the context", hold.Context().Done())
	if !hold.Valid() || hold.Loss() != nil || !call.isOpen() {
		t.Error("the hold was given up")
	}
	if _, err := hold.Release(context.WithoutCancel(ctx)); err != nil {
		t.Error(err)
	}
	receive(t, "the end of the stream", call.over)
}

func TestEventsComeInTheirOrder(t *testing.T) {
	b := newBench(t)
	hold, call, events := b.heldHere()
	b.clock.advance(3)
	call.tell(renewed(validity(ours, 1_059, 58)))
	call.tell(&leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_AtRisk{AtRisk: &leaseholdv1.AtRisk{
		Validity: validity(ours, 1_059, 57), Cause: leaseholdv1.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE, Detail: "no route",
	}}})
	call.tell(&leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_Recovered{
		Recovered: &leaseholdv1.Recovered{Validity: validity(ours, 1_060, 57)},
	}})
	call.tell(&leaseholdv1.HoldLeaseResponse{Event: &leaseholdv1.HoldLeaseResponse_Draining{
		Draining: &leaseholdv1.Draining{TimeLeft: wireDuration(20 * time.Second)},
	}})
	call.tell(lostFor(leaseholdv1.LossReason_LOSS_REASON_SHUTDOWN))
	if event := want[Renewed](t, events); event.ValidUntil != at(1_059) {
		t.Error(event)
	}
	if event := want[AtRisk](t, events); event.Cause != ReasonStoreUnavailable || event.Detail != "no route" {
		t.Error(event)
	}
	if event := want[Recovered](t, events); event.ValidUntil != at(1_060) {
		t.Error(event)
	}
	if event := want[Draining](t, events); event.TimeLeft != 20*time.Second {
		t.Error(event)
	}
	loss := lossOf(t, hold)
	if event := want[Lost](t, events); event.Loss != loss || loss.Reason != LossReasonShutdown {
		t.Error(event)
	}
	if loss.Error() != "the lock was lost: SHUTDOWN: so it is" {
		t.Error(loss)
	}
}

func TestASlowListenerKeepsNothingWaiting(t *testing.T) {
	b := newBench(t)
	stuck := make(chan struct{})
	defer close(stuck)
	answer := b.ask(t.Context(), LeaseSpec{OnEvent: func(HoldEvent) { <-stuck }})
	call := b.call()
	call.tell(granted(validity(ours, 1_058, 58)))
	hold := receive(t, "the hold", answer).hold
	call.tell(renewed(validity(ours, 1_059, 59)))
	eventually(t, "the renewal is taken in", func() bool { return hold.ValidUntil() == at(1_059) })
	call.tell(lostFor(leaseholdv1.LossReason_LOSS_REASON_TAKEN))
	lossOf(t, hold)
}

func TestS21WhoAsksIsToldAtOnceThatTheValidityIsOver(t *testing.T) {
	b := newBench(t)
	hold, _, _ := b.heldHere()
	b.clock.advance(58)
	if hold.Valid() || hold.Remaining() != 0 || hold.Context().Err() == nil || hold.Loss() == nil {
		t.Error("it is still valid")
	}
}

// holdLost is the status that tells of a loss.
func holdLost(t *testing.T, reason string) error {
	t.Helper()
	info := &errdetails.ErrorInfo{
		Domain: reasonDomain, Reason: "HOLD_LOST", Metadata: map[string]string{"loss_reason": reason},
	}
	told, err := status.New(codes.FailedPrecondition, "it is over").WithDetails(info)
	if err != nil {
		t.Fatal(err)
	}
	return told.Err()
}
