package leasehold

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// sharing asks for a place among others.
var sharing = LeaseSpec{Priority: 7, Yields: true, Share: "listeners", Rebalance: true}

// wantAsked is that a message asks for what sharing does.
func wantAsked(t *testing.T, spec *leaseholdv1.LeaseSpec) {
	t.Helper()
	if spec.GetPriority() != 7 || !spec.GetYields() || spec.GetShare() != "listeners" || !spec.GetRebalance() {
		t.Error(spec)
	}
}

// sharedRecord is the record of a holder with a place among others.
func sharedRecord() *leaseholdv1.LockRecord {
	return &leaseholdv1.LockRecord{
		LockPath: "l", Holder: "a", Sidecar: "pod-a/17", Share: "listeners", Priority: 7, Yields: true,
		Reserved: &leaseholdv1.Reservation{Priority: 8, Until: &timestamppb.Timestamp{Seconds: 1_700_000_000}},
	}
}

// acquired is the answer to an Acquire that is granted.
func acquired() *leaseholdv1.AcquireLeaseResponse {
	grant := &leaseholdv1.Grant{LeaseId: "lease-1", Generation: 1}
	return &leaseholdv1.AcquireLeaseResponse{Outcome: &leaseholdv1.AcquireLeaseResponse_Granted{Granted: grant}}
}

func TestS33ToS35WhatIsAskedForIsSent(t *testing.T) {
	b := newBench(t)
	answer := b.ask(t.Context(), sharing)
	call := b.call()
	wantAsked(t, call.request.GetSpec())
	call.tell(grantedHere())
	if err := receive(t, "the hold", answer).err; err != nil {
		t.Error(err)
	}
	b.sidecar.acquire = func(spec *leaseholdv1.LeaseSpec) (*leaseholdv1.AcquireLeaseResponse, error) {
		wantAsked(t, spec)
		return acquired(), nil
	}
	if _, err := b.client.Acquire(t.Context(), sharing); err != nil {
		t.Error(err)
	}
}

func TestS33ToS35TermsAreAskedForWithThem(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		over <- b.client.Lead(ctx, sharing, func(context.Context, *Hold) error { return nil })
	}()
	wantAsked(t, b.call().request.GetSpec())
	cancel()
	if err := receive(t, "the end", over); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestS33ABusyLockSaysWhyAPriorityWaits(t *testing.T) {
	b := newBench(t)
	for told, status := range map[leaseholdv1.PriorityStatus]PriorityStatus{
		1: PriorityStatusHolderDoesNotYield, 0: PriorityStatusNone, 9_999: PriorityStatusNone,
	} {
		answer := b.ask(t.Context(), LeaseSpec{Priority: 7})
		event := busyWith("a")
		busy := event.GetBusy()
		busy.PriorityStatus, busy.Record = told, sharedRecord()
		b.call().tell(event)
		var isBusy *BusyError
		err := receive(t, "the answer", answer).err
		if !errors.As(err, &isBusy) || isBusy.Busy.PriorityStatus != status || isBusy.Busy.Record.Sidecar != "pod-a/17" {
			t.Error(told, err)
		}
		shown := strings.HasSuffix(err.Error(), " (priority: holder does not yield)")
		if shown != (status == PriorityStatusHolderDoesNotYield) || strings.Contains(err.Error(), "()") {
			t.Error(told, err)
		}
	}
}

func TestS33EveryStatusIsKnown(t *testing.T) {
	ours := []PriorityStatus{
		PriorityStatusNone, PriorityStatusHolderDoesNotYield, PriorityStatusNotGreater, PriorityStatusWaitedTooShort,
		PriorityStatusBrokenRecently, PriorityStatusRevoked, PriorityStatusCannotBreak, PriorityStatusReserved,
	}
	if len(ours) != len(leaseholdv1.PriorityStatus_name) {
		t.Error(leaseholdv1.PriorityStatus_name)
	}
	for number, status := range ours {
		wire := leaseholdv1.PriorityStatus(number)
		if told := busyFrom(&leaseholdv1.Busy{PriorityStatus: wire}).PriorityStatus; told != status {
			t.Error(wire, told)
		}
	}
}

func TestS36ARecordTellsOfItsHoldersPlaceAmongOthers(t *testing.T) {
	b := newBench(t)
	b.sidecar.record = sharedRecord()
	record, err := b.client.GetLock(t.Context(), LockPath("l"))
	if err != nil || record.Sidecar != "pod-a/17" || record.Share != "listeners" || record.Priority != 7 || !record.Yields ||
		*record.Reserved != (Reservation{Priority: 8, Until: time.Unix(1_700_000_000, 0).UTC()}) {
		t.Errorf("%+v, %v", record, err)
	}
	b.sidecar.record = &leaseholdv1.LockRecord{LockPath: "l"}
	record, err = b.client.GetLock(t.Context(), LockPath("l"))
	if err != nil || record.Sidecar != "" || record.Share != "" || record.Priority != 0 || record.Yields || record.Reserved != nil {
		t.Errorf("%+v, %v", record, err)
	}
}

func TestS34LocksAreListedAndWatchedByShare(t *testing.T) {
	b := newBench(t)
	b.sidecar.pages = [][]string{{"l"}}
	for _, err := range b.client.ListLocks(t.Context(), ListOptions{Share: "listeners"}) {
		if err != nil {
			t.Error(err)
		}
	}
	if calls := b.sidecar.calls(); !slices.Equal(calls, []string{`list "" [] map[] "listeners"`}) {
		t.Error(calls)
	}
	b.follow(t.Context(), WatchOptions{Share: "listeners"})
	if call := receive(t, "WatchLocks", b.sidecar.follows); call.request.GetShare() != "listeners" {
		t.Error(call.request)
	}
}

func TestS33ANoticeTellsAGreaterPriorityFromAnOperator(t *testing.T) {
	for name, wanted := range map[string]*uint32{"greater": proto.Uint32(7), "equal": proto.Uint32(0), "operator": nil} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			hold, call, _ := b.heldHere()
			event := revokedBy(validity(ours, 1_058, 58), "me")
			event.GetRevoked().GetBreakNote().ForPriority = wanted
			call.tell(event)
			receive(t, "the notice", hold.Revoked())
			b.clock.advance(58)
			for where, told := range map[string]*uint32{
				"notice": hold.Notice().ForPriority, "loss": lossOf(t, hold).BreakNote.ForPriority,
			} {
				if (told == nil) != (wanted == nil) || (told != nil && *told != *wanted) {
					t.Error(where, told)
				}
			}
		})
	}
}
