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

func TestS4LostAtValidUntilThoughNobodySaysSo(t *testing.T) {
	b := newBench(t)
	hold, call, events := b.heldHere()
	b.clock.advance(57)
	if !hold.Valid() {
		t.Error("too early")
	}
	b.clock.advance(1)
	// The timer finds it, though nobody asks.
	if loss := lossOf(t, hold); loss.Reason != LossReasonExpired {
		t.Error(loss)
	}
	want[Lost](t, events)
	receive(t, "the end of the stream", call.over)
}

func TestS21WhoAsksIsToldAtOnceThatTheValidityIsOver(t *testing.T) {
	b := newBench(t)
	hold, _, _ := b.heldHere()
	b.clock.advance(58)
	if hold.Valid() || hold.Remaining() != 0 || hold.Context().Err() == nil || hold.Loss() == nil {
		t.Error("it is still valid")
	}
}

func TestS4ARenewalThatWaitedInTheSocketRevivesNothing(t *testing.T) {
	b := newBench(t)
	hold, call, events := b.heldHere()
	call.tell(renewed(validity(ours, 1_058, 58)))
	want[Renewed](t, events)
	// As after a pause of the process: the clock has passed the validity, and the renewal is read only now.
	b.clock.advance(60)
	call.tell(renewed(validity(ours, 1_100, 58)))
	want[Lost](t, events)
	b.clock.advance(1)
	if hold.Valid() {
		t.Error("it was revived")
	}
}

func TestS21ARenewalMovesTheEndOfValidity(t *testing.T) {
	b := newBench(t)
	hold, call, events := b.heldHere()
	b.clock.advance(20)
	call.tell(renewed(validity(ours, 1_078, 58)))
	if event := want[Renewed](t, events); event.ValidUntil != hold.ValidUntil() || hold.Remaining() != 58*time.Second {
		t.Error(event, hold.Remaining())
	}
}

func TestS21ElsewhereTheSidecarIsAskedOnceAboutEachRenewal(t *testing.T) {
	b := newBench(t)
	hold, call, _ := b.held(validity(elsewhere, 70, 58))
	// The last is the one with which a sidecar hands over (S15).
	for count, passed := range []int{20, 20, 20, 7} {
		b.clock.advance(passed)
		b.answerReports(validity(elsewhere, 90, 58), nil)
		call.tell(renewed(validity(elsewhere, 90, 58)))
		eventually(t, "the answer counts", func() bool { return hold.Remaining() == 58*time.Second })
		if calls := b.sidecar.calls(); len(calls) != count+1 {
			t.Error(calls)
		}
	}
}

func TestS21ElsewhereTheSidecarIsAskedAndItsWordsUnaskedForExtendNothing(t *testing.T) {
	b := newBench(t)
	hold, call, events := b.held(validity(elsewhere, 70, 58))
	call.tell(renewed(validity(elsewhere, 90, 58)))
	want[Renewed](t, events)
	if hold.Remaining() != 58*time.Second {
		t.Error(hold.Remaining())
	}
	if calls := b.sidecar.calls(); len(calls) != 0 {
		t.Error("asked too early:", calls)
	}
	b.answerReports(validity(elsewhere, 95, 50), nil)
	b.clock.advance(30)
	eventually(t, "the answer counts from the question", func() bool { return hold.Remaining() == 50*time.Second })
	for _, call := range b.sidecar.calls() {
		if call != "get hold of generation 1" {
			t.Error(call)
		}
	}
}

func TestS21ElsewhereTheAnswerThatItIsLostIsTakenIn(t *testing.T) {
	b := newBench(t)
	hold, _, _ := b.held(validity(elsewhere, 70, 58))
	b.answerReports(nil, holdLost(t, "TAKEN"))
	b.clock.advance(30)
	if loss := lossOf(t, hold); loss.Reason != LossReasonTaken {
		t.Error(loss)
	}
}

func TestS21ElsewhereAGrantAfterALongWaitIsAskedAboutFirst(t *testing.T) {
	b := newBench(t)
	b.answerReports(validity(elsewhere, 95, 57), nil)
	answer := b.ask(t.Context(), LeaseSpec{})
	call := b.call()
	b.clock.advance(500)
	call.tell(granted(validity(elsewhere, 70, 58)))
	asked := receive(t, "the hold", answer)
	if asked.err != nil || asked.hold.Remaining() != 57*time.Second {
		t.Error(asked)
	}
}

func TestS2AGrantThatIsReadTooLateIsNoGrant(t *testing.T) {
	b := newBench(t)
	answer := b.ask(t.Context(), LeaseSpec{})
	call := b.call()
	b.clock.advance(500)
	call.tell(granted(validity(ours, 1_100, 58)))
	var lost *LostError
	if err := receive(t, "the answer", answer).err; !errors.As(err, &lost) {
		t.Error(err)
	}
	receive(t, "the end of the stream", call.over)
}

func TestS11ProgressIsReportedAndItsAnswerCounts(t *testing.T) {
	b := newBench(t)
	hold, _, _ := b.heldHere()
	b.answerReports(validity(ours, 1_060, 60), nil)
	if err := hold.ReportProgress(t.Context()); err != nil || hold.Remaining() != 60*time.Second {
		t.Error(err, hold.Remaining())
	}
	if err := hold.Extend(t.Context(), 90*time.Second); err != nil || hold.Remaining() != 90*time.Second {
		t.Error(err, hold.Remaining())
	}
	if calls := strings.Join(b.sidecar.calls(), "; "); calls != "report of generation 1; extend lease-1 of generation 1" {
		t.Error(calls)
	}
}

func TestAnAnswerThatTellsOfTheLossEndsTheHold(t *testing.T) {
	b := newBench(t)
	hold, _, _ := b.heldHere()
	b.answerReports(nil, holdLost(t, "NO_PROGRESS"))
	var refused *RefusedError
	if err := hold.ReportProgress(t.Context()); !errors.As(err, &refused) || refused.Reason != ReasonHoldLost {
		t.Error(err)
	}
	if loss := lossOf(t, hold); loss.Reason != LossReasonNoProgress {
		t.Error(loss)
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
