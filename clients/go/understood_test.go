package leasehold

import (
	"errors"
	"strings"
	"testing"
	"time"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// wantUnsupported is that an error says that the sidecar is too old for a field.
func wantUnsupported(t *testing.T, err error, field string) {
	t.Helper()
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Reason != ReasonUnsupported || refused.Code != CodeUnimplemented ||
		!strings.Contains(err.Error(), field) || !strings.Contains(err.Error(), "older") {
		t.Error(err)
	}
}

func TestS37AGrantOfASidecarThatIsTooOldIsReleasedAndRefused(t *testing.T) {
	for field, spec := range map[string]LeaseSpec{
		"wait_without_end": {Wait: Forever}, "permits": {Permits: 2}, "occurrence_at": {Occurrence: time.Unix(60, 0)},
		"priority": {Priority: 7}, "yields": {Yields: true}, "share": {Share: "listeners"}, "rebalance": {Rebalance: true},
	} {
		t.Run(field, func(t *testing.T) {
			b := newBench(t)
			answer := b.ask(t.Context(), spec)
			call := b.call()
			event := grantedHere()
			event.GetGranted().Understood = nil
			call.tell(event)
			wantUnsupported(t, receive(t, "the answer", answer).err, field)
			receive(t, "the end of the stream", call.over)
			if calls := strings.Join(b.sidecar.calls(), "; "); calls != "release lease-1 of generation 1" {
				t.Error(calls)
			}
		})
	}
}

func TestS37ABusyOfASidecarThatIsTooOldIsRefused(t *testing.T) {
	b := newBench(t)
	answer := b.ask(t.Context(), LeaseSpec{Wait: Forever})
	event := busyWith("somebody")
	event.GetBusy().Understood = nil
	b.call().tell(event)
	wantUnsupported(t, receive(t, "the answer", answer).err, "wait_without_end")
}

func TestS37AWaitAtASidecarThatIsTooOldIsLeft(t *testing.T) {
	b := newBench(t)
	answer := b.ask(t.Context(), LeaseSpec{Wait: Forever, Priority: 7})
	call := b.call()
	call.tell(waitingAt(1))
	wantUnsupported(t, receive(t, "the answer", answer).err, "priority")
	receive(t, "the end of the stream", call.over)
}

func TestS37AnAcquireOfPermitsThatTheSidecarDoesNotKnowIsReleasedAndRefused(t *testing.T) {
	b := newBench(t)
	outcomes := []*leaseholdv1.AcquireLeaseResponse{
		{Outcome: &leaseholdv1.AcquireLeaseResponse_Granted{Granted: &leaseholdv1.Grant{LeaseId: "old"}}},
		{Outcome: &leaseholdv1.AcquireLeaseResponse_Busy{Busy: &leaseholdv1.Busy{}}},
	}
	for _, outcome := range outcomes {
		b.sidecar.acquire = func(*leaseholdv1.LeaseSpec) (*leaseholdv1.AcquireLeaseResponse, error) { return outcome, nil }
		_, err := b.client.Acquire(t.Context(), LeaseSpec{Permits: 2})
		wantUnsupported(t, err, "permits")
	}
	if calls := b.sidecar.calls(); len(calls) != 3 || calls[1] != "release old of generation 0" {
		t.Error(calls)
	}
}

func TestS28PermitsAreAskedForAndTheHeldOnesTold(t *testing.T) {
	b := newBench(t)
	answer := b.ask(t.Context(), LeaseSpec{Permits: 3})
	call := b.call()
	if permits := call.request.GetSpec().GetPermits(); permits != 3 {
		t.Error(permits)
	}
	event := busyWith("somebody")
	event.GetBusy().HeldPermits, event.GetBusy().Understood = 3, understood(3)
	call.tell(event)
	var busy *BusyError
	if err := receive(t, "the answer", answer).err; !errors.As(err, &busy) || busy.Busy.HeldPermits != 3 {
		t.Error(err)
	}
	selector := LockPermit{Key: LockKey{Function: "f"}, Permit: 2}.selector()
	if selector.GetPermit() != 2 || selector.GetKey().GetFunction() != "f" {
		t.Error(selector)
	}
}
