package leasehold

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

func TestEachCallSendsWhatItSaysAndFailsWithTheSidecarsError(t *testing.T) {
	b := newBench(t)
	key, path := LockKey{Function: "f"}, LockPath("p")
	wireKey, wirePath := key.selector(), path.selector()
	revision, token := uint64(3), uint64(9)
	ctx, c := t.Context(), b.client
	clear(b.sidecar.answers)
	for i, call := range []struct {
		request proto.Message
		err     error
	}{
		{&leaseholdv1.ReleaseLeaseRequest{LeaseId: "l", Checkpoint: []byte("v")}, errOf(c.Release(ctx, "l", WithCheckpoint([]byte("v"))))},
		{&leaseholdv1.ExtendLeaseRequest{LeaseId: "l", MaxHold: wireDuration(time.Hour)}, errOf(c.Extend(ctx, "l", time.Hour))},
		{&leaseholdv1.ReportProgressRequest{LeaseId: "l"}, errOf(c.ReportProgress(ctx, "l"))},
		{&leaseholdv1.GetHoldRequest{LeaseId: "l"}, errOf(c.GetHold(ctx, "l"))},
		{&leaseholdv1.SaveCheckpointRequest{LeaseId: "l", Value: []byte("v")}, errOf(c.SaveCheckpoint(ctx, "l", []byte("v")))},
		{&leaseholdv1.GetLockRequest{Lock: wirePath, WithCheckpoint: true}, errOf(c.GetCheckpoint(ctx, path))},
		{&leaseholdv1.GetLockRequest{Lock: wireKey}, errOf(c.GetLock(ctx, key))},
		{&leaseholdv1.CheckTokenRequest{Lock: wireKey, FencingToken: 7}, errOf(c.CheckToken(ctx, key, 7))},
		{&leaseholdv1.BreakLockRequest{
			Lock: wireKey, Reason: "r", BrokenBy: "me", Mode: leaseholdv1.BreakMode_BREAK_MODE_NOW, FencingToken: &token,
		}, errOf(c.BreakLock(ctx, key, BreakOptions{Reason: "r", By: "me", Now: true, FencingToken: token}))},
		{&leaseholdv1.ResolvePathRequest{Key: key.wire()}, errOf(c.ResolvePath(ctx, key))},
		{&leaseholdv1.GetServerInfoRequest{}, errOf(c.GetServerInfo(ctx))},
		{&leaseholdv1.ListLocksRequest{
			Under: &leaseholdv1.ListLocksRequest_HostId{HostId: "h"}, Labels: map[string]string{"team": "a"}, Share: "s", PageSize: 9,
			States: []leaseholdv1.LockState{leaseholdv1.LockState_LOCK_STATE_BREAKING},
		}, lastOf(c.ListLocks(ctx, ListOptions{
			HostID: "h", Labels: map[string]string{"team": "a"}, Share: "s", PageSize: 9, States: []LockState{LockStateBreaking},
		}))},
		{&leaseholdv1.GetScheduleRequest{Lock: wireKey}, errOf(c.GetSchedule(ctx, key))},
		{&leaseholdv1.PauseScheduleRequest{Lock: wireKey}, errOf(c.PauseSchedule(ctx, key))},
		{&leaseholdv1.ResumeScheduleRequest{Lock: wirePath}, errOf(c.ResumeSchedule(ctx, path))},
		{&leaseholdv1.TriggerScheduleRequest{Lock: wireKey, RequestId: "x"}, errOf(c.TriggerSchedule(ctx, key, "x"))},
		{&leaseholdv1.RemoveScheduleRequest{Lock: wireKey, Reason: "r", Force: true}, errOf(c.RemoveSchedule(ctx, key, "r", true))},
		{&leaseholdv1.ResetScheduleRequest{
			Lock: wireKey, Reason: "r", Revision: &revision, Watermark: &timestamppb.Timestamp{Seconds: 500},
		}, errOf(c.ResetSchedule(ctx, key, ScheduleReset{Reason: "r", Watermark: time.Unix(500, 0), Revision: &revision}))},
		{&leaseholdv1.ListSchedulesRequest{Under: &leaseholdv1.ListSchedulesRequest_Prefix{Prefix: "p"}, PageSize: 9}, lastOf(c.ListSchedules(ctx, ListSchedulesOptions{Prefix: "p", PageSize: 9}))},
		{&leaseholdv1.PreviewScheduleRequest{
			Spec: &leaseholdv1.ScheduleSpec{Timetable: &leaseholdv1.ScheduleSpec_Cron{Cron: "@daily"}}, Count: 2, Key: key.wire(),
			After: &timestamppb.Timestamp{Seconds: 1_000}, Needs: 1,
		}, errOf(c.PreviewSchedule(ctx, ScheduleSpec{Key: key, Cron: "@daily"}, time.Unix(1_000, 0), 2))},
		{&leaseholdv1.CompleteRunRequest{RunId: "r", Outcome: leaseholdv1.RunOutcome_RUN_OUTCOME_FAILED, Detail: "d"},
			errOf(c.CompleteRun(ctx, "r", Completion{Outcome: RunOutcomeFailed, Detail: "d"}))},
	} {
		if code := status.Code(as[*RefusedError](t, call.err)); code != codes.Unimplemented {
			t.Error(call.err)
		}
		if sent := b.sidecar.requests[i]; !proto.Equal(sent, call.request) {
			t.Errorf("%T: %v, not %v", sent, sent, call.request)
		}
		isOfSchedules := strings.Contains(string(call.request.ProtoReflect().Descriptor().Name()), "Schedule")
		if says := strings.Contains(call.err.Error(), "does not know schedules"); isOfSchedules && !says {
			t.Error("S37:", call.err)
		}
	}
}

func errOf[T any](_ T, err error) error { return err }

// lastOf is the error of a listing, if it ends with one.
func lastOf[R any](records func(func(R, error) bool)) (last error) {
	for _, err := range records {
		last = err
	}
	return last
}

func TestAListingGoesThroughAllPages(t *testing.T) {
	b := newBench(t)
	on(b.sidecar, func(request *leaseholdv1.ListLocksRequest) (*leaseholdv1.ListLocksResponse, error) {
		if request.GetPageToken() != "" {
			return &leaseholdv1.ListLocksResponse{Records: []*leaseholdv1.LockRecord{{LockPath: "c"}}}, nil
		}
		records := []*leaseholdv1.LockRecord{{LockPath: "a"}, {LockPath: "b"}}
		return &leaseholdv1.ListLocksResponse{Records: records, NextPageToken: "2"}, nil
	})
	on(b.sidecar, func(request *leaseholdv1.ListSchedulesRequest) (*leaseholdv1.ListSchedulesResponse, error) {
		if request.GetPageToken() != "" {
			return &leaseholdv1.ListSchedulesResponse{Schedules: []*leaseholdv1.Schedule{{LockPath: "e"}}}, nil
		}
		return &leaseholdv1.ListSchedulesResponse{Schedules: []*leaseholdv1.Schedule{{LockPath: "d"}}, NextPageToken: "2"}, nil
	})
	var paths []string
	for record, err := range b.client.ListLocks(t.Context(), ListOptions{Prefix: "p"}) {
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, record.LockPath)
	}
	for schedule, err := range b.client.ListSchedules(t.Context(), ListSchedulesOptions{HostID: "h"}) {
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, schedule.LockPath)
	}
	if !slices.Equal(paths, []string{"a", "b", "c", "d", "e"}) {
		t.Error(paths)
	}
	for range b.client.ListLocks(t.Context(), ListOptions{}) {
		break
	}
	for range b.client.ListSchedules(t.Context(), ListSchedulesOptions{}) {
		break
	}
	b.sidecar.wantCalls(t, "ListLocks p", "ListLocks p 2", "ListSchedules h", "ListSchedules h 2", "ListLocks", "ListSchedules")
	for wanted, err := range map[string]error{
		"not by both":              lastOf(b.client.ListLocks(t.Context(), ListOptions{HostID: "h", Prefix: "p"})),
		"by prefix, not by both":   lastOf(b.client.ListSchedules(t.Context(), ListSchedulesOptions{HostID: "h", Prefix: "p"})),
		`"held" is not the state`:  lastOf(b.client.ListLocks(t.Context(), ListOptions{States: []LockState{"held"}})),
		"watched by host id or by": lastOf(b.client.WatchLocks(t.Context(), WatchOptions{HostID: "h", Prefix: "p"})),
	} {
		if err == nil || !strings.Contains(err.Error(), wanted) {
			t.Error(wanted, err)
		}
	}
}

func TestAnAnswerWithoutWhatItIsAboutIsAnError(t *testing.T) {
	b := newBench(t)
	answers[leaseholdv1.AcquireLeaseRequest](b.sidecar, &leaseholdv1.AcquireLeaseResponse{})
	answers[leaseholdv1.ReleaseLeaseRequest](b.sidecar, &leaseholdv1.ReleaseLeaseResponse{})
	answers[leaseholdv1.ReportProgressRequest](b.sidecar, &leaseholdv1.ReportProgressResponse{})
	answers[leaseholdv1.GetHoldRequest](b.sidecar, &leaseholdv1.GetHoldResponse{})
	answers[leaseholdv1.GetLockRequest](b.sidecar, &leaseholdv1.GetLockResponse{})
	answers[leaseholdv1.GetScheduleRequest](b.sidecar, &leaseholdv1.GetScheduleResponse{})
	answers[leaseholdv1.ExtendLeaseRequest](b.sidecar, &leaseholdv1.ExtendLeaseResponse{})
	hold, _, _ := b.held()
	ctx, c := t.Context(), b.client
	for _, err := range []error{
		errOf(c.Acquire(ctx, LeaseSpec{})), errOf(c.Release(ctx, "l")), errOf(c.ReportProgress(ctx, "l")), errOf(hold.Info(ctx)),
		errOf(c.GetLock(ctx, LockPath("p"))), errOf(c.GetSchedule(ctx, LockPath("p"))), hold.Extend(ctx, time.Hour),
	} {
		as[*ProtocolError](t, err)
	}
	for _, over := range []*leaseholdv1.AcquireLeaseResponse{
		{Outcome: &leaseholdv1.AcquireLeaseResponse_AlreadyDone{AlreadyDone: &leaseholdv1.AlreadyDone{}}},
		{Outcome: &leaseholdv1.AcquireLeaseResponse_Skipped{Skipped: &leaseholdv1.Skipped{}}},
	} {
		answers[leaseholdv1.AcquireLeaseRequest](b.sidecar, over)
		_, err := b.client.Acquire(t.Context(), LeaseSpec{})
		as[*ProtocolError](t, err)
	}
}

func TestAHoldAsksForWhatTheSidecarKnowsOfItAndTheValidityCounts(t *testing.T) {
	b := newBench(t)
	hold, _, _ := b.held()
	limit := &struct{ At, After int64 }{300_000, 300_000}
	answers[leaseholdv1.GetHoldRequest](b.sidecar,
		answerOf("ours", "get_hold", said{Until: 60_000, For: 60_000, MaxHold: limit}).(*leaseholdv1.GetHoldResponse))
	info, err := hold.Info(t.Context())
	ends, isLimited := hold.MaxHoldEnds()
	if err != nil || info.State != HoldStateHeld || hold.Remaining() != 60*time.Second || !isLimited || ends != at(1_300) {
		t.Error(info, err, ends)
	}
	// S21: elsewhere it asks by itself when half of the validity is over.
	answer := b.ask(t.Context(), LeaseSpec{})
	b.call().tell(says(&leaseholdv1.HoldLeaseResponse{}, "elsewhere", "granted", said{Until: 58_000, For: 58_000}))
	elsewhere := b.got(answer)
	b.clock.advance(30)
	eventually(t, "the answer counts", func() bool {
		ends, isLimited := elsewhere.MaxHoldEnds()
		// From before the question, as it is answered with what was made earlier.
		return isLimited && ends == at(1_330)
	})
	fails[leaseholdv1.GetHoldRequest](b.sidecar, reasoned(codes.FailedPrecondition, "HOLD_LOST", map[string]string{"loss_reason": "TAKEN"}))
	_, err = hold.Info(t.Context())
	if as[*RefusedError](t, err); lossOf(t, hold).Reason != LossReasonTaken {
		t.Error(err)
	}
}

func TestAcquireWithoutEndRepeatsTheLongestWaitThatTheSidecarTells(t *testing.T) {
	b := newBench(t)
	answers[leaseholdv1.GetServerInfoRequest](b.sidecar, &leaseholdv1.GetServerInfoResponse{
		Limits: &leaseholdv1.ServerLimits{Wait: wireDuration(6 * time.Hour)},
	})
	var waits []time.Duration
	on(b.sidecar, func(request *leaseholdv1.AcquireLeaseRequest) (*leaseholdv1.AcquireLeaseResponse, error) {
		if request.GetSpec().GetWaitWithoutEnd() || request.GetNeeds() != 1 {
			t.Error(request)
		}
		if waits = append(waits, request.GetSpec().GetWait().AsDuration()); len(waits) < 3 {
			return &leaseholdv1.AcquireLeaseResponse{Outcome: &leaseholdv1.AcquireLeaseResponse_Busy{}}, nil
		}
		return acquired(), nil
	})
	if _, err := b.client.Acquire(t.Context(), LeaseSpec{Wait: Forever}); err != nil {
		t.Error(err)
	}
	if !slices.Equal(waits, []time.Duration{6 * time.Hour, 6 * time.Hour, 6 * time.Hour}) {
		t.Error(waits)
	}
}

func TestS37ACallTriesOnWhereItIsWhileItsWaitLasts(t *testing.T) {
	seen := &connections{}
	b := newBench(t, seen.option())
	refusals := 0
	on(b.sidecar, func(*leaseholdv1.AcquireLeaseRequest) (*leaseholdv1.AcquireLeaseResponse, error) {
		if refusals++; refusals <= 3 {
			return nil, tooOldFor("2")
		}
		return acquired(), nil
	})
	_, err := b.client.Acquire(t.Context(), LeaseSpec{})
	if refused := as[*RefusedError](t, err); refused.Reason != ReasonUnsupported {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.client.Acquire(ctx, LeaseSpec{Wait: time.Minute}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := b.client.Acquire(t.Context(), LeaseSpec{Wait: time.Minute}); err != nil || refusals != 4 {
		t.Error(err, refusals)
	}
	if _, err := b.client.Release(t.Context(), "lease-1"); err != nil || seen.made.Load() != 1 {
		t.Error(err, seen.made.Load())
	}
}
