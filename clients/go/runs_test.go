package leasehold

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

func nightly() ScheduleSpec {
	return ScheduleSpec{Key: LockKey{Function: "nightly"}, Cron: "30 2 * * *", TimeZone: "Europe/Copenhagen", Holder: "me"}
}

// fullSpec has a value in each field that a definition has.
func fullSpec() ScheduleSpec {
	return ScheduleSpec{
		Cron: "@daily", TimeZone: "UTC", Revision: 7, CatchUp: CatchUpAll, CatchUpMax: 5, CatchUpWindow: time.Hour,
		Grace: time.Minute, Overlap: OverlapSkip, MaxAttempts: 9, Backoff: time.Second, RunTimeout: Forever,
		Spread: 2 * time.Second, TakeoverCheck: 3 * time.Second, LeaseDuration: 15 * time.Second,
	}
}

// subscription waits for the next SubscribeSchedule.
func (b *bench) subscription() *subscribeCall {
	b.Helper()
	return receive(b.T, "SubscribeSchedule", b.sidecar.schedules.subscriptions)
}

type nextRun struct {
	run *Run
	err error
}

// next asks for the next run on a goroutine of its own.
func (b *bench) next(runs *Runs) <-chan nextRun {
	answer := make(chan nextRun, 1)
	go func() {
		run, err := runs.Next(b.Context())
		answer <- nextRun{run, err}
	}()
	return answer
}

// got waits for a run.
func (b *bench) got(answer <-chan nextRun) *Run {
	b.Helper()
	next := receive(b.T, "the run", answer)
	if next.err != nil {
		b.Fatal(next.err)
	}
	return next.run
}

func (b *bench) runsOf(spec ScheduleSpec) *Runs {
	b.Helper()
	runs, err := b.client.Runs(spec)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(runs.Close)
	return runs
}

// running is a run that has just come, on this stream.
func (b *bench) running(spec ScheduleSpec) (*Runs, *Run, *subscribeCall) {
	b.Helper()
	runs := b.runsOf(spec)
	asking := b.next(runs)
	call := b.subscription()
	call.tell(standingBy(), aRun())
	return runs, b.got(asking), call
}

func TestARunTellsWhatItIsOfAndItsOutcomeIsRecorded(t *testing.T) {
	b := newBench(t)
	_, run, call := b.running(nightly())
	if call.request.GetReconnected() || call.request.GetHolder() != "me" || call.request.GetSpec().GetCron() != "30 2 * * *" {
		t.Error(call.request)
	}
	if run.ScheduledAt().Unix() != 1_800 || run.NextAt().Unix() != 3_600 || run.Kind() != RunKindScheduled ||
		run.Attempt() != 2 || run.MaxAttempts() != 3 || run.MissedCount() != 7 || run.FencingToken() != 65_536 || !run.Valid() {
		t.Error(run)
	}
	if strings.Contains(run.String(), "run-1") {
		t.Error("S20:", run)
	}
	done, err := run.Complete(run.Context(), Completion{Outcome: RunOutcomeSucceeded, Checkpoint: []byte("page 7")})
	if err != nil || done.Result != CompletionResultRecorded || done.CheckpointVersion != 5 || run.Valid() {
		t.Error(done, err)
	}
	if calls := b.sidecar.calls(); len(calls) != 1 || calls[0] != `complete run-1 of "lease-1" generation 1: SUCCEEDED ""` {
		t.Error(calls)
	}
}

func TestT2TheStreamGoesOnToTheNextRun(t *testing.T) {
	for name, recordedFirst := range map[string]bool{"recorded before the answer": true, "after it": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			runs, run, call := b.running(nightly())
			third := aRun(func(run *leaseholdv1.Run) { run.Attempt = 3 })
			if recordedFirst {
				// Before it was asked for, it would be a release by another.
				b.sidecar.schedules.completing = func() { call.tell(runRecorded(), standingBy(), third) }
			}
			if _, err := run.Fail(t.Context(), "no disk"); err != nil {
				t.Fatal(err)
			}
			if !recordedFirst {
				call.tell(runRecorded(), standingBy(), third)
			}
			if second := b.got(b.next(runs)); second.Attempt() != 3 || !second.Valid() || !call.isOpen() {
				t.Error(second, call.isOpen())
			}
		})
	}
}

func TestS37ASubscriberIsToldThatASidecarIsTooOldAndTriesOnElsewhere(t *testing.T) {
	b := newBench(t)
	told := make(chan ScheduleEvent, 8)
	spec := nightly()
	spec.OnEvent = func(event ScheduleEvent) {
		if _, isInterrupted := event.(Interrupted); isInterrupted {
			told <- event
		}
	}
	asking := b.next(b.runsOf(spec))
	call := b.subscription()
	if needs := call.request.GetNeeds(); needs != 1 {
		t.Error(needs)
	}
	for range 2 {
		b.replace()
		call.fail(tooOldFor("2"))
		if event := receive(t, "word of it", told); !strings.Contains(event.(Interrupted).Detail, "2 and 1") {
			t.Error(event)
		}
		call = b.subscription()
		call.tell(standingBy())
	}
	call.tell(aRun())
	b.got(asking)
	asking = b.next(b.runsOf(nightly()))
	b.subscription().fail(status.Error(codes.Unimplemented, ""))
	if err := receive(t, "the answer", asking).err; err == nil || !strings.Contains(err.Error(), "update the sidecar") {
		t.Error(err)
	}
}

func TestT16ASubscriberWhoseSidecarRestartsComesBackAsNoNewOne(t *testing.T) {
	b := newBench(t)
	runs := b.runsOf(nightly())
	asking := b.next(runs)
	call := b.subscription()
	call.tell(standingBy())
	call.fail(errGone)
	call = b.subscription()
	if !call.request.GetReconnected() || call.request.GetResume() != nil {
		t.Error(call.request)
	}
	call.tell(standingBy(), aRun())
	b.got(asking)
}

func TestASidecarThatWasNeverThereIsAnErrorAtOnce(t *testing.T) {
	b := newBench(t)
	b.kill()
	if err := receive(t, "the answer", b.next(b.runsOf(nightly()))).err; err == nil || !mayPass(err) {
		t.Error(err)
	}
}

func TestS16ARunSurvivesARestartOfTheSidecarAndItsStreamGoesOn(t *testing.T) {
	b := newBench(t)
	events := make(chan HoldEvent, 64)
	spec := nightly()
	spec.OnHoldEvent = func(event HoldEvent) { events <- event }
	runs, run, _ := b.running(spec)
	want[Granted](t, events)
	b.kill()
	want[Interrupted](t, events)
	b.start()
	call := b.subscription()
	if resume := call.request.GetResume(); !call.request.GetReconnected() || call.request.GetRunId() != "run-1" ||
		resume.GetResumeToken() != "resume-1" {
		t.Error(call.request)
	}
	call.tell(aRun(func(run *leaseholdv1.Run) { run.Grant.Generation = 2 }))
	want[Resumed](t, events)
	if !run.Valid() {
		t.Error("it goes on")
	}
	if _, err := run.Succeed(t.Context()); err != nil {
		t.Error(err)
	}
	if calls := b.sidecar.calls(); !strings.Contains(calls[0], "generation 2") {
		t.Error(calls)
	}
	call.tell(runRecorded(), aRun())
	b.got(b.next(runs))
}

func TestS16AResumeThatFindsTheRunLostLeavesNoSubscriberBehind(t *testing.T) {
	b := newBench(t)
	_, run, call := b.running(nightly())
	call.fail(errGone)
	call = b.subscription()
	call.tell(runLost(leaseholdv1.LossReason_LOSS_REASON_TAKEN))
	lossOf(t, run.hold)
	receive(t, "the end of the stream", call.over)
}

func TestS4ARunThatIsToldLostIsOverAndTheNextOneIsAskedForAnew(t *testing.T) {
	b := newBench(t)
	runs, run, call := b.running(nightly())
	call.tell(runLost(leaseholdv1.LossReason_LOSS_REASON_MAX_HOLD_REACHED))
	if loss := lossOf(t, run.hold); loss.Reason != LossReasonMaxHoldReached {
		t.Error(loss)
	}
	receive(t, "the end of the stream", call.over)
	asking := b.next(runs)
	call = b.subscription()
	if !call.request.GetReconnected() {
		t.Error(call.request)
	}
	call.tell(standingBy(), aRun())
	b.got(asking)
}

func TestT12TheStreamOutlivesADeadlineUntilTheSidecarSaysIt(t *testing.T) {
	b := newBench(t)
	told := make(chan ScheduleEvent, 8)
	spec := nightly()
	spec.OnEvent = func(event ScheduleEvent) {
		if _, isDefinition := event.(DefinitionInForce); isDefinition {
			told <- event
		}
	}
	runs := b.runsOf(spec)
	runs.lastWord = time.Hour
	asking := b.next(runs)
	call := b.subscription()
	call.tell(standingBy(), aRun())
	run := b.got(asking)
	b.clock.advance(58)
	lossOf(t, run.hold)
	// What no run concerns is still read, so the stream lives. It may be read before the end is taken in, so say it twice.
	for range 2 {
		call.tell(&leaseholdv1.SubscribeScheduleResponse{Event: &leaseholdv1.SubscribeScheduleResponse_DefinitionInForce{
			DefinitionInForce: &leaseholdv1.DefinitionInForce{Conflict: true},
		}})
		if definition, _ := receive(t, "word of the stream", told).(DefinitionInForce); !definition.Conflict {
			t.Error(definition)
		}
	}
	call.tell(runLost(leaseholdv1.LossReason_LOSS_REASON_MAX_HOLD_REACHED))
	receive(t, "the end of the stream", call.over)
}

func TestT8ACompletionIsRepeatedUntilItIsAnsweredAlsoWhenTheHoldIsOver(t *testing.T) {
	b := newBench(t)
	_, run, _ := b.running(nightly())
	late := leaseholdv1.CompletionResult_COMPLETION_RESULT_RECORDED_LATE
	b.sidecar.schedules.completions = []any{errGone, errGone, late}
	b.clock.advance(58)
	lossOf(t, run.hold)
	done, err := run.Succeed(run.Context())
	if calls := b.sidecar.calls(); err != nil || done.Result != CompletionResultRecordedLate || len(calls) != 3 {
		t.Error(done, err, calls)
	}
}

func TestT8ACompletionThatIsRefusedIsAnError(t *testing.T) {
	b := newBench(t)
	_, run, call := b.running(nightly())
	b.sidecar.schedules.completions = []any{status.Error(codes.InvalidArgument, "run_id is not one of ours")}
	if _, err := run.Succeed(t.Context()); status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
	receive(t, "the end of the stream", call.over)
}

func TestARunThatComesTooLateIsReturned(t *testing.T) {
	b := newBench(t)
	asking := b.next(b.runsOf(nightly()))
	call := b.subscription()
	call.tell(standingBy())
	b.clock.advance(60)
	call.tell(aRun(), aRun(func(run *leaseholdv1.Run) { run.Grant.Validity = validity(ours, 1_118, 58) }))
	b.got(asking)
	if calls := b.sidecar.calls(); len(calls) != 1 || !strings.Contains(calls[0], "RETURNED") {
		t.Error(calls)
	}
}

func TestClosingEndsTheWaitAndAClosedClientReturnsItsRun(t *testing.T) {
	b := newBench(t)
	runs := b.runsOf(nightly())
	asking := b.next(runs)
	call := b.subscription()
	runs.Close()
	if err := receive(t, "the answer", asking).err; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	receive(t, "the end of the stream", call.over)
	_, run, _ := b.running(nightly())
	if err := b.client.Close(); err != nil || run.Valid() {
		t.Error(err)
	}
	if calls := b.sidecar.calls(); len(calls) != 1 || !strings.Contains(calls[0], "RETURNED") {
		t.Error(calls)
	}
}

func TestEveryCallAboutSchedulesReachesTheSidecar(t *testing.T) {
	b := newBench(t)
	key := LockKey{Function: "f", Scope: "s"}
	schedule, err := b.client.GetSchedule(t.Context(), key)
	wanted := fullSpec()
	wanted.Key = schedule.Key
	if err != nil || schedule.LockPath != "f/s" || !reflect.DeepEqual(*schedule.Spec, wanted) {
		t.Error(schedule.Spec, err)
	}
	if paused, err := b.client.PauseSchedule(t.Context(), key); err != nil || !paused.Paused {
		t.Error(err)
	}
	if resumed, err := b.client.ResumeSchedule(t.Context(), LockPath("locks/a")); err != nil || resumed.LockPath != "locks/a" {
		t.Error(err)
	}
	if triggered, err := b.client.TriggerSchedule(t.Context(), key, "x"); err != nil || triggered.WaitingRequestIDs[0] != "x" {
		t.Error(err)
	}
	if removed, err := b.client.RemoveSchedule(t.Context(), key, "moved", true); err != nil || removed.Removed.Reason != "moved" {
		t.Error(err)
	}
	revision := uint64(3)
	reset := ScheduleReset{Reason: "clock", Watermark: time.Unix(500, 0), Revision: &revision}
	if begun, err := b.client.ResetSchedule(t.Context(), key, reset); err != nil || begun.Reset.Reason != "clock" ||
		begun.Reset.At.Unix() != 500 || begun.Spec.Revision != revision {
		t.Error(begun, err)
	}
	var paths []string
	for schedule, err := range b.client.ListSchedules(t.Context(), ListSchedulesOptions{HostID: "h"}) {
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, schedule.LockPath)
	}
	if strings.Join(paths, " ") != "a b" {
		t.Error(paths)
	}
	preview, err := b.client.PreviewSchedule(t.Context(), nightly(), time.Unix(1_000, 0), 2)
	if err != nil || preview.Understood.ZoneData != "2026b" || len(preview.Occurrences) != 2 ||
		preview.Occurrences[0].At.Unix() != 1_000 {
		t.Error(preview, err)
	}
	both := ScheduleSpec{Cron: "@daily", Every: time.Hour}
	if _, err := b.client.PreviewSchedule(t.Context(), both, time.Time{}, 0); err == nil {
		t.Error("one timetable")
	}
	if _, err := b.client.CompleteRun(context.Background(), "run-7", Completion{Outcome: RunOutcomeReturned}); err != nil {
		t.Error(err)
	}
}

func TestALongDetailIsCutBetweenCharacters(t *testing.T) {
	if len(cut(strings.Repeat("ü", 400))) != 512 || len(cut("x"+strings.Repeat("ü", 400))) != 511 || cut("a\xff") != "a\uFFFD" {
		t.Error("cut")
	}
}

func TestS21ARunReportsProgressAndTakesInTheValidity(t *testing.T) {
	b := newBench(t)
	_, run, _ := b.running(nightly())
	b.answerReports(validity(ours, 1_200, 200), nil)
	if err := run.ReportProgress(t.Context()); err != nil || run.Remaining() != 200*time.Second {
		t.Error(run.Remaining(), err)
	}
}
