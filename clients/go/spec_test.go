package leasehold

import (
	"bytes"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

func TestAllThatIsAskedForIsSent(t *testing.T) {
	spec := LeaseSpec{
		Key:           LockKey{Function: "f", Scope: "s", Mode: LockModeListener, HostID: "id", HostType: "type"},
		LeaseDuration: 15 * time.Second, Wait: 2 * time.Second, MaxHold: 3 * time.Second, MinHold: 4 * time.Second,
		ProgressTimeout: 5 * time.Second, NoRenewal: true, RequestID: "r", Holder: "me", Labels: map[string]string{"k": "v"},
		Permits: 3, Priority: 7, Yields: true, Share: "listeners", Rebalance: true, Occurrence: time.Unix(1_800, 0).UTC(),
		OccurrenceMaxAttempts: 6,
	}
	wire := spec.wire(spec.Wait)
	wantSame(t, "spec", spec, wire)
	want(t, !wire.GetAutoRenew() && wire.AutoRenew != nil && wire.GetKey().GetMode() == leaseholdv1.LockMode_LOCK_MODE_LISTENER && wire.GetOccurrenceAt().AsTime().Equal(spec.Occurrence) &&
		wire.GetLabels()["k"] == "v",
		wire)
	// Defaults are the sidecar's.
	plain := &leaseholdv1.LeaseSpec{Key: &leaseholdv1.LockKey{Function: "f"}, Holder: "me", WaitWithoutEnd: true}
	wire = (LeaseSpec{Key: LockKey{Function: "f"}, Holder: "me"}).wire(Forever)
	want(t, proto.Equal(wire, plain), wire)
	selector := (LockPermit{Key: spec.Key, Permit: 2}).selector()
	want(t, selector.GetPermit() == 2 && keyFrom(selector.GetKey()) == spec.Key, selector)
}

func nightly() ScheduleSpec {
	return ScheduleSpec{Key: LockKey{Function: "nightly"}, Cron: "30 2 * * *", TimeZone: "Europe/Copenhagen", Holder: "me"}
}

func TestAScheduleIsSentAndReadAsItIs(t *testing.T) {
	spec := ScheduleSpec{
		Key: LockKey{Function: "f"}, Cron: "@daily", TimeZone: "UTC", Revision: 7, CatchUp: CatchUpAll, CatchUpMax: 5,
		CatchUpWindow: time.Hour, Grace: time.Minute, Overlap: OverlapSkip, MaxAttempts: 9, Backoff: time.Second,
		RunTimeout: 4 * time.Second, StopGrace: 5 * time.Second, ProgressTimeout: 6 * time.Second, Spread: 2 * time.Second,
		TakeoverCheck: 3 * time.Second, LeaseDuration: 15 * time.Second,
	}
	again := spec
	again.Cron, again.Every, again.RunTimeout = "", time.Hour, Forever
	for _, spec := range []ScheduleSpec{spec, again} {
		wire, err := spec.wire()
		read := specFrom(spec.Key, wire)
		want(t, err == nil && reflect.DeepEqual(*read, spec), read, err)
	}
	spec.FirstNow, spec.Holder, spec.Labels = true, "me", map[string]string{"k": "v"}
	request, err := spec.subscription()
	want(t, err == nil && request.GetFirst() == leaseholdv1.FirstRun_FIRST_RUN_NOW && request.GetHolder() == "me" && request.GetLabels()["k"] == "v", request, err)
}

func TestS37ARequestNeedsTheRevisionOfItsNewestField(t *testing.T) {
	newer := map[protoreflect.FullName]uint32{"leasehold.v1.LeaseSpec.permits": 2, "leasehold.v1.LockKey.scope": 3}
	for least, spec := range map[uint32]*leaseholdv1.LeaseSpec{
		1: {Priority: 7, Key: &leaseholdv1.LockKey{Function: "f"}},
		2: {Permits: proto.Uint32(0), Key: &leaseholdv1.LockKey{Function: "f"}},
		3: {Permits: proto.Uint32(2), Key: &leaseholdv1.LockKey{Scope: "s"}},
	} {
		request := &leaseholdv1.HoldLeaseRequest{Start: &leaseholdv1.HoldLeaseRequest_Spec{Spec: spec}}
		needed := neededBy(request.ProtoReflect(), newer)
		want(t, needed == least, needed, least)
	}
}

func TestACallerWithoutANameIsItsPodOrHostAndProcess(t *testing.T) {
	for host, wanted := range map[string]string{
		"importer-7f9c": "importer-7f9c/17", "": "17", "björn": "17", "a\nb": "17",
		strings.Repeat("h", 300): strings.Repeat("h", holderBytes-3) + "/17",
	} {
		if named := holderNamed(host, 17); named != wanted {
			t.Errorf("%q: %q", host, named)
		}
	}
	host, _ := os.Hostname()
	wanted := host + "/" + strconv.Itoa(os.Getpid())
	request, _ := ScheduleSpec{}.subscription()
	sent := (LeaseSpec{}).wire(0).GetHolder()
	want(t, sent == wanted && request.GetHolder() == wanted, sent, request)
}

func (stories) S19WhatNoSidecarTakesIsRefusedHereAndNothingIsDone(s *stage) {
	hold, c, ctx := s.holds(), s.client, s.Context()
	large := bytes.Repeat([]byte("x"), 2_049)
	both := ScheduleSpec{Cron: "@daily", Every: time.Hour}
	for field, failures := range map[string][]error{
		"value": {errOf(hold.Save(ctx, large)), errOf(c.SaveCheckpoint(ctx, "lease-1", large))},
		"checkpoint": {
			errOf(hold.Release(ctx, WithCheckpoint(large))), errOf(c.CompleteRun(ctx, "run-1", Completion{Checkpoint: large})),
		},
		"outcome": {
			errOf(hold.Release(ctx, WithOutcome(RunOutcomeTimedOut))), errOf(hold.Release(ctx, WithOutcome(RunOutcomeNone))),
		},
		"spec.timetable": {errOf(c.Runs(both)), errOf(c.PreviewSchedule(ctx, both, time.Time{}, 0))},
	} {
		for _, err := range failures {
			refused := as[*RefusedError](s, err)
			want(s, refused.Reason == ReasonInvalidField && refused.Violations[0].Field == field, field, refused)
		}
	}
	s.wantSent("hold")
	want(s, hold.Valid(), hold.Loss())
	ok(s, errOf(hold.Save(ctx, large[:2_048])))
}

func TestALongDetailIsCutBetweenCharacters(t *testing.T) {
	want(t, len(cut(strings.Repeat("ü", 400))) == 512 && len(cut("x"+strings.Repeat("ü", 400))) == 511 && cut("a\xff") == "a\uFFFD", "cut")
}
