package leasehold

import (
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// tooOldFor is what a sidecar says that is too old for a request.
func tooOldFor(needs string) error {
	st, _ := status.New(codes.Unimplemented, "2 and 1").WithDetails(&errdetails.ErrorInfo{
		Domain: reasonDomain, Reason: "UNSUPPORTED", Metadata: map[string]string{"needs": needs, "revision": "1"},
	})
	return st.Err()
}

func wantUnsupported(t *testing.T, err error) {
	t.Helper()
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Reason != ReasonUnsupported || refused.Code != CodeUnimplemented {
		t.Error(err)
	}
}

func TestS37ARequestNeedsTheRevisionOfItsNewestField(t *testing.T) {
	newer := map[protoreflect.FullName]uint32{"leasehold.v1.LeaseSpec.permits": 2, "leasehold.v1.LockKey.scope": 3}
	for least, spec := range map[uint32]*leaseholdv1.LeaseSpec{
		1: {Priority: 7, Key: &leaseholdv1.LockKey{Function: "f"}},
		2: {Permits: proto.Uint32(0), Key: &leaseholdv1.LockKey{Function: "f"}},
		3: {Permits: proto.Uint32(2), Key: &leaseholdv1.LockKey{Scope: "s"}},
	} {
		request := &leaseholdv1.HoldLeaseRequest{Start: &leaseholdv1.HoldLeaseRequest_Spec{Spec: spec}}
		if needed := neededBy(request.ProtoReflect(), newer); needed != least {
			t.Error(needed, least)
		}
	}
}

func TestS37WhatCameFromASidecarThatRefusesAnotherHoldStaysThere(t *testing.T) {
	for name, isCalled := range map[string]bool{"called before": true, "not called before": false} {
		t.Run(name, func(t *testing.T) {
			seen := &connections{}
			b := newBench(t, grpc.StatsHandler(seen))
			b.answerReports(validity(ours, 1_058, 58), nil)
			b.sidecar.save = func([]byte) (*leaseholdv1.SaveCheckpointResponse, error) {
				return &leaseholdv1.SaveCheckpointResponse{Version: 1}, nil
			}
			runs, run, _ := b.running(nightly())
			kept, _, _ := b.heldHere()
			if isCalled {
				if _, err := b.client.Acquire(t.Context(), LeaseSpec{}); err != nil {
					t.Fatal(err)
				}
			}
			older := b.replace()
			answer := b.ask(t.Context(), LeaseSpec{Wait: time.Minute})
			receive(t, "HoldLease", older.holds).fail(tooOldFor("2"))
			b.call().tell(grantedHere())
			newer := receive(t, "the hold", answer)
			if newer.err != nil {
				t.Fatal(newer.err)
			}
			if err := kept.ReportProgress(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := kept.Save(t.Context(), []byte("x")); err != nil {
				t.Error(err)
			}
			for _, hold := range []*Hold{kept, newer.hold} {
				if _, err := hold.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if _, err := run.Succeed(t.Context()); err != nil {
				t.Error(err)
			}
			release, wanted := "release lease-1 of generation 1", []string{"report of generation 1"}
			wanted = append(wanted, `save "x" of lease-1, generation 1`, release,
				`complete run-1 of "lease-1" generation 1: SUCCEEDED ""`)
			if isCalled {
				if _, err := b.client.Release(t.Context(), "lease-1"); err != nil {
					t.Error(err)
				}
				wanted = append(append([]string{"acquire [] [kernel-a]"}, wanted...), "release lease-1 of generation 0")
			}
			if there, here := older.calls(), b.sidecar.calls(); !slices.Equal(there, wanted) ||
				!slices.Equal(here, []string{release}) {
				t.Error(there, here)
			}
			runs.Close()
			eventually(t, "what is not needed is closed", func() bool { return seen.open.Load() == seen.made.Load()-1 })
		})
	}
}

func TestS37ACallTriesOnWhereItIsWhileItsWaitLasts(t *testing.T) {
	seen := &connections{}
	b := newBench(t, grpc.StatsHandler(seen))
	refusals := 0
	b.sidecar.acquire = func(*leaseholdv1.LeaseSpec) (*leaseholdv1.AcquireLeaseResponse, error) {
		if refusals++; refusals <= 3 {
			return nil, tooOldFor("2")
		}
		return acquired(), nil
	}
	_, err := b.client.Acquire(t.Context(), LeaseSpec{})
	wantUnsupported(t, err)
	if _, err := b.client.Acquire(t.Context(), LeaseSpec{Wait: time.Minute}); err != nil || refusals != 4 {
		t.Error(err, refusals)
	}
	if _, err := b.client.Release(t.Context(), "lease-1"); err != nil || seen.made.Load() != 1 {
		t.Error(err, seen.made.Load())
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
	event.GetBusy().HeldPermits = 3
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
