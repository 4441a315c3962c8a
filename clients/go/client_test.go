package leasehold

import (
	"context"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// A token that is checked, a path that is resolved, and what a sidecar says of itself are rows of tests/clients.
func (stories) EachCallSendsWhatItSaysAndFailsWithTheSidecarsError(s *stage) {
	key, path := LockKey{Function: "f"}, LockPath("p")
	const lock, ofTeam = `lock:{key:{function:"f"}} `, `labels:{key:"team" value:"a"} share:"s" `
	ctx, c, labels, revision := s.Context(), s.client, map[string]string{"team": "a"}, uint64(3)
	s.answers = map[string]any{"": status.Error(codes.Unimplemented, "")}
	for i, call := range []struct {
		name, request string
		err           error
	}{
		{"ReleaseLease", `lease_id:"l" checkpoint:"v"`, errOf(c.Release(ctx, "l", WithCheckpoint([]byte("v"))))},
		{"ExtendLease", `lease_id:"l" max_hold:{seconds:3600}`, errOf(c.Extend(ctx, "l", time.Hour))},
		{"ReportProgress", `lease_id:"l"`, errOf(c.ReportProgress(ctx, "l"))},
		{"GetHold", `lease_id:"l"`, errOf(c.GetHold(ctx, "l"))},
		{"SaveCheckpoint", `lease_id:"l" value:"v"`, errOf(c.SaveCheckpoint(ctx, "l", []byte("v")))},
		{"GetLock", `lock:{lock_path:"p"} with_checkpoint:true`, errOf(c.GetCheckpoint(ctx, path))},
		{"GetLock", lock, errOf(c.GetLock(ctx, key))},
		{"BreakLock", lock + `reason:"r" broken_by:"me" mode:BREAK_MODE_NOW fencing_token:9`,
			errOf(c.BreakLock(ctx, key, BreakOptions{Reason: "r", By: "me", Now: true, FencingToken: 9}))},
		{"ListLocks", ofTeam + `host_id:"h" page_size:9 states:LOCK_STATE_BREAKING`, lastOf(c.ListLocks(ctx, ListOptions{
			HostID: "h", Labels: labels, Share: "s", PageSize: 9, States: []LockState{LockStateBreaking},
		}))},
		// What it tells is a row of tests/clients.
		{"WatchLocks", ofTeam + `prefix:"p"`, lastOf(c.WatchLocks(ctx, WatchOptions{Prefix: "p", Labels: labels, Share: "s"}))},
		{"WatchLocks", `host_id:"h"`, lastOf(c.WatchLocks(ctx, WatchOptions{HostID: "h"}))},
		{"GetSchedule", lock, errOf(c.GetSchedule(ctx, key))},
		{"PauseSchedule", lock, errOf(c.PauseSchedule(ctx, key))},
		{"ResumeSchedule", `lock:{lock_path:"p"}`, errOf(c.ResumeSchedule(ctx, path))},
		{"TriggerSchedule", lock + `request_id:"x"`, errOf(c.TriggerSchedule(ctx, key, "x"))},
		{"RemoveSchedule", lock + `reason:"r" force:true`, errOf(c.RemoveSchedule(ctx, key, "r", true))},
		{"ResetSchedule", lock + `reason:"r" revision:3 watermark:{seconds:500}`,
			errOf(c.ResetSchedule(ctx, key, ScheduleReset{Reason: "r", Watermark: time.Unix(500, 0), Revision: &revision}))},
		{"ListSchedules", `prefix:"p" page_size:9`, lastOf(c.ListSchedules(ctx, ListSchedulesOptions{Prefix: "p", PageSize: 9}))},
		{"PreviewSchedule", `spec:{cron:"@daily"} count:2 key:{function:"f"} after:{seconds:1000} needs:1`,
			errOf(c.PreviewSchedule(ctx, ScheduleSpec{Key: key, Cron: "@daily"}, time.Unix(1_000, 0), 2))},
		{"CompleteRun", `run_id:"r" outcome:RUN_OUTCOME_FAILED detail:"d"`,
			errOf(c.CompleteRun(ctx, "r", Completion{Outcome: RunOutcomeFailed, Detail: "d"}))},
	} {
		says, sent := as[*RefusedError](s, call.err).Error(), s.calls[i].Message
		request := sent.ProtoReflect().New().Interface()
		ok(s, prototext.Unmarshal([]byte(call.request), request))
		isSent := string(sent.ProtoReflect().Descriptor().Name()) == call.name+"Request" && proto.Equal(sent, request)
		want(s, isSent && status.Code(call.err) == codes.Unimplemented, says, sent, "not", call.name, request)
		want(s, !strings.Contains(call.name, "Schedule") || strings.Contains(says, "does not know schedules"), "S37:", says)
	}
}

// lastOf is the error of a listing, if it ends with one.
func lastOf[R any](records func(func(R, error) bool)) (last error) {
	for _, err := range records {
		last = err
	}
	return last
}

func (stories) AListingGoesThroughAllPages(s *stage) {
	locks := map[string]*leaseholdv1.ListLocksResponse{
		"":  {Records: []*leaseholdv1.LockRecord{{LockPath: "a"}, {LockPath: "b"}}, NextPageToken: "2"},
		"2": {Records: []*leaseholdv1.LockRecord{{LockPath: "c"}}},
	}
	schedules := map[string]*leaseholdv1.ListSchedulesResponse{
		"":  {Schedules: []*leaseholdv1.Schedule{{LockPath: "d"}}, NextPageToken: "2"},
		"2": {Schedules: []*leaseholdv1.Schedule{{LockPath: "e"}}},
	}
	s.always("ListLocks", func(request any) any { return locks[request.(*leaseholdv1.ListLocksRequest).GetPageToken()] })
	s.always("ListSchedules", func(request any) any { return schedules[request.(*leaseholdv1.ListSchedulesRequest).GetPageToken()] })
	ctx, c := s.Context(), s.client
	var paths []string
	for record, err := range c.ListLocks(ctx, ListOptions{Prefix: "p"}) {
		ok(s, err)
		paths = append(paths, record.LockPath)
	}
	for schedule, err := range c.ListSchedules(ctx, ListSchedulesOptions{HostID: "h"}) {
		ok(s, err)
		paths = append(paths, schedule.LockPath)
	}
	same(s, "listed", paths, []string{"a", "b", "c", "d", "e"})
	for range c.ListLocks(ctx, ListOptions{}) {
		break
	}
	for range c.ListSchedules(ctx, ListSchedulesOptions{}) {
		break
	}
	s.wantSent("ListLocks", "ListLocks", "ListSchedules", "ListSchedules", "ListLocks", "ListSchedules")
	for wanted, err := range map[string]error{
		"not by both":              lastOf(c.ListLocks(ctx, ListOptions{HostID: "h", Prefix: "p"})),
		"by prefix, not by both":   lastOf(c.ListSchedules(ctx, ListSchedulesOptions{HostID: "h", Prefix: "p"})),
		`"held" is not the state`:  lastOf(c.ListLocks(ctx, ListOptions{States: []LockState{"held"}})),
		"watched by host id or by": lastOf(c.WatchLocks(ctx, WatchOptions{HostID: "h", Prefix: "p"})),
	} {
		want(s, err != nil && strings.Contains(err.Error(), wanted), wanted, err)
	}
}

func (stories) AnAnswerWithoutWhatItIsAboutIsAnError(s *stage) {
	hold, ctx, c := s.holds(), s.Context(), s.client
	for name, answer := range map[string]any{
		"AcquireLease": &leaseholdv1.AcquireLeaseResponse{}, "release": &leaseholdv1.ReleaseLeaseResponse{},
		"report_progress": said{}, "get_hold": said{}, "extend_lease": said{},
		"GetLock": &leaseholdv1.GetLockResponse{}, "GetSchedule": &leaseholdv1.GetScheduleResponse{},
	} {
		s.always(name, answer)
	}
	failures := []error{
		errOf(c.Acquire(ctx, LeaseSpec{})), errOf(c.Release(ctx, "l")), errOf(c.ReportProgress(ctx, "l")), errOf(hold.Info(ctx)),
		errOf(c.GetLock(ctx, LockPath("p"))), errOf(c.GetSchedule(ctx, LockPath("p"))), hold.Extend(ctx, time.Hour),
	}
	for _, over := range []*leaseholdv1.AcquireLeaseResponse{
		{Outcome: &leaseholdv1.AcquireLeaseResponse_AlreadyDone{AlreadyDone: &leaseholdv1.AlreadyDone{}}},
		{Outcome: &leaseholdv1.AcquireLeaseResponse_Skipped{Skipped: &leaseholdv1.Skipped{}}},
	} {
		s.always("AcquireLease", over)
		failures = append(failures, errOf(c.Acquire(ctx, LeaseSpec{})))
	}
	asked := s.nextRun()
	s.on(0).said <- &leaseholdv1.SubscribeScheduleResponse{
		Event: &leaseholdv1.SubscribeScheduleResponse_Run{Run: &leaseholdv1.Run{}},
	}
	for _, err := range append(failures, (<-asked).err) {
		as[*ProtocolError](s, err)
	}
	s.wantAlive(1)
}

func (stories) AHoldAsksForWhatTheSidecarKnowsOfItAndTheValidityCounts(s *stage) {
	hold := s.holds()
	s.always("get_hold", said{"until": 60_000, "for": 60_000, "max_hold": said{"at": 300_000, "after": 300_000}})
	info := must(hold.Info(s.Context()))
	ends, _ := hold.MaxHoldEnds()
	want(s, info.State == HoldStateHeld && hold.Remaining() == 60*time.Second && sinceBase(ends) == 300_000, info, ends)
	s.always("get_hold", refusing{Code: "FAILED_PRECONDITION", Reason: "HOLD_LOST", Loss: "TAKEN"}.err())
	as[*RefusedError](s, errOf(hold.Info(s.Context())))
	s.wantLoss(hold, LossReasonTaken)
}

func (stories) AcquireWithoutEndRepeatsTheLongestWaitThatTheSidecarTells(s *stage) {
	s.always("GetServerInfo", &leaseholdv1.GetServerInfoResponse{
		Limits: &leaseholdv1.ServerLimits{Wait: wireDuration(6 * time.Hour)},
	})
	var waits []time.Duration
	s.always("AcquireLease", func(request any) any {
		spec := request.(*leaseholdv1.AcquireLeaseRequest).GetSpec()
		want(s, !spec.GetWaitWithoutEnd(), spec)
		if waits = append(waits, spec.GetWait().AsDuration()); len(waits) < 3 {
			return &leaseholdv1.AcquireLeaseResponse{Outcome: &leaseholdv1.AcquireLeaseResponse_Busy{}}
		}
		return s.acquired("lease-1")
	})
	ok(s, errOf(s.client.Acquire(s.Context(), LeaseSpec{Wait: Forever})))
	same(s, "waits", waits, []time.Duration{6 * time.Hour, 6 * time.Hour, 6 * time.Hour})
}

func (stories) S37ACallTriesOnWhereItIsWhileItsWaitLasts(s *stage) {
	refusals := 0
	s.always("AcquireLease", func(any) any {
		if refusals++; refusals <= 3 {
			return tooOldFor2
		}
		return s.acquired("lease-1")
	})
	refused := as[*RefusedError](s, errOf(s.client.Acquire(s.Context(), LeaseSpec{})))
	want(s, refused.Reason == ReasonUnsupported, refused)
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	wantIs(s, errOf(s.client.Acquire(ctx, LeaseSpec{Wait: time.Minute})), context.Canceled)
	ok(s, errOf(s.client.Acquire(s.Context(), LeaseSpec{Wait: time.Minute})))
	ok(s, errOf(s.client.Release(s.Context(), "lease-1")))
	want(s, refusals == 4 && s.made.Load() == 1, refusals, s.made.Load())
}

// Where a wait goes on is a vector: over another connection than the silent one.
func (stories) AWaiterIsToldItsPlaceOnceAndHasAnErrorIfNoSidecarIsBackInTime(s *stage) {
	asked := s.asks(s.Context(), LeaseSpec{Wait: 91 * time.Second})
	for _, position := range []uint32{2, 2, 1} {
		s.says("waiting", said{"position": position})
	}
	s.wantTold("waiting 2", "waiting 1")
	s.pass(90_050)
	s.wantAlive(2)
	want(s, s.on(2).by != s.on(1).by, "it is asked for over the silent connection")
	s.kill()
	as[*UnreachableError](s, (<-asked).err)
	want(s, s.clock() == 91_000, s.clock())
}

// watches watches a lock; told are the paths, and the error that ended it.
func (s *stage) watches(ctx context.Context) (told *[]string, over <-chan outcome[any]) {
	told = &[]string{}
	return told, later(func() (any, error) {
		for record, err := range s.client.WatchLock(ctx, LockPath("l")) {
			if err != nil {
				return nil, err
			}
			*told = append(*told, record.LockPath)
		}
		return nil, nil
	})
}

func (s *stage) records(paths ...string) {
	for _, path := range paths {
		s.on(0).said <- &leaseholdv1.WatchLockResponse{Record: &leaseholdv1.LockRecord{LockPath: path}}
	}
	synctest.Wait()
}

func (stories) AWatchTellsNoRecordTwiceAndGoesOnWhereNothingIsHeardOrItsSidecarRestarts(s *stage) {
	ctx, cancel := context.WithCancel(s.Context())
	told, over := s.watches(ctx)
	s.records("a", "a", "b")
	s.pass(90_050)
	s.wantAlive(2)
	s.records("b", "c")
	s.kill()
	s.start()
	s.pass(100_000)
	s.records("d")
	want(s, slices.Equal(*told, []string{"a", "b", "c", "d"}), *told)
	cancel()
	wantIs(s, (<-over).err, context.Canceled)
	_, over = s.watches(s.Context())
	s.records("a")
	s.kill()
	as[*UnreachableError](s, (<-over).err)
	want(s, s.clock() >= 190_000, "it tries on for 90 s:", s.clock())
}
