package leasehold

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

var (
	runLost   = ofRun("lost", said{Reason: "TAKEN"})
	standBy   = &leaseholdv1.Standby{Understood: &leaseholdv1.UnderstoodSchedule{Expression: "30 2 * * *"}}
	standing  = &leaseholdv1.SubscribeScheduleResponse{Event: &leaseholdv1.SubscribeScheduleResponse_Standby{Standby: standBy}}
	isEnded   = &leaseholdv1.Recorded{RunId: "run-1"}
	recorded  = &leaseholdv1.SubscribeScheduleResponse{Event: &leaseholdv1.SubscribeScheduleResponse_Recorded{Recorded: isEnded}}
	conflicts = &leaseholdv1.SubscribeScheduleResponse{Event: &leaseholdv1.SubscribeScheduleResponse_DefinitionInForce{
		DefinitionInForce: &leaseholdv1.DefinitionInForce{Conflict: true},
	}}
)

// aRun is a run of the occurrence at 1,800 s, in this attempt, valid until so long on our boot clock.
func aRun(attempt uint32, until int64) *leaseholdv1.SubscribeScheduleResponse {
	run := &leaseholdv1.Run{
		Grant: event("granted", said{Until: until, For: 58_000}).GetGranted(), RunId: "run-1",
		ScheduledAt: &timestamppb.Timestamp{Seconds: 1_800}, Attempt: attempt,
	}
	return &leaseholdv1.SubscribeScheduleResponse{Event: &leaseholdv1.SubscribeScheduleResponse_Run{Run: run}}
}

// subscription waits for the next SubscribeSchedule.
func (b *bench) subscription() *subscribeCall {
	b.Helper()
	return receive(b.T, "SubscribeSchedule", b.sidecar.subscriptions)
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

// gotRun waits for a run.
func (b *bench) gotRun(answer <-chan nextRun) *Run {
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
	call.tell(standing, aRun(2, 58_000))
	return runs, b.gotRun(asking), call
}

func TestARunIsCompletedByItsOwnContextAndShowsNoSecrets(t *testing.T) {
	b := newBench(t)
	_, run, call := b.running(nightly())
	if call.request.GetReconnected() || call.request.GetNeeds() != 1 || run.Attempt() != 2 || !run.Valid() ||
		strings.Contains(run.String(), "run-1") {
		t.Error(call.request, run)
	}
	done, err := run.Complete(run.Context(), Completion{Outcome: RunOutcomeSucceeded, Checkpoint: []byte("page 7")})
	if err != nil || done.Result != CompletionResultRecorded || done.CheckpointVersion != 5 || run.Valid() {
		t.Error(done, err)
	}
	if again, err := run.Fail(t.Context(), "late"); err != nil || again != done {
		t.Error("the first one decides:", again, err)
	}
	b.sidecar.wantCalls(t, `CompleteRun lease-1 run-1 RUN_OUTCOME_SUCCEEDED 1 "page 7"`)
}

func TestT2TheStreamGoesOnToTheNextRun(t *testing.T) {
	for name, recordedFirst := range map[string]bool{"recorded before the answer": true, "after it": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			runs, run, call := b.running(nightly())
			if recordedFirst {
				// Before it was asked for, it would be a release by another.
				on(b.sidecar, func(*leaseholdv1.CompleteRunRequest) (*leaseholdv1.CompleteRunResponse, error) {
					call.tell(recorded, standing, aRun(3, 58_000))
					return &leaseholdv1.CompleteRunResponse{}, nil
				})
			}
			if _, err := run.Fail(t.Context(), "no disk"); err != nil {
				t.Fatal(err)
			}
			if !recordedFirst {
				call.tell(recorded, standing, aRun(3, 58_000))
			}
			if second := b.gotRun(b.next(runs)); second.Attempt() != 3 || !second.Valid() || !call.isOpen() {
				t.Error(second, call.isOpen())
			}
		})
	}
}

func TestS37T16ASubscriberGoesOnElsewhereAndIsNoNewOneThen(t *testing.T) {
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
	for i, end := range []error{tooOldFor("2"), tooOldFor("2"), errGone} {
		if call.request.GetReconnected() != (i > 1) {
			t.Error(i, call.request)
		}
		if i < 2 {
			b.replace()
		}
		call.fail(end)
		if event := receive(t, "word of it", told); event.(Interrupted).Detail == "" {
			t.Error(event)
		}
		call = b.subscription()
		call.tell(standing)
	}
	if !call.request.GetReconnected() || call.request.GetResume() != nil {
		t.Error(call.request)
	}
	call.tell(aRun(1, 58_000))
	b.gotRun(asking)
	asking = b.next(b.runsOf(nightly()))
	b.subscription().fail(status.Error(codes.Unimplemented, ""))
	if err := receive(t, "the answer", asking).err; err == nil || !strings.Contains(err.Error(), "update the sidecar") {
		t.Error(err)
	}
	b.kill()
	if err := receive(t, "the answer", b.next(b.runsOf(nightly()))).err; err == nil || !mayPass(err) {
		t.Error("a sidecar that was never there is an error at once:", err)
	}
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
	call.tell(standing, aRun(1, 58_000))
	run := b.gotRun(asking)
	b.clock.advance(58)
	lossOf(t, run.hold)
	// What no run concerns is still read, so the stream lives. It may be read before the end is taken in, so say it twice.
	for range 2 {
		call.tell(conflicts)
		if definition, _ := receive(t, "word of the stream", told).(DefinitionInForce); !definition.Conflict {
			t.Error(definition)
		}
	}
	call.tell(runLost)
	receive(t, "the end of the stream", call.over)
}

func TestT8ACompletionIsRepeatedUntilItIsAnsweredAlsoWhenTheHoldIsOver(t *testing.T) {
	b := newBench(t)
	_, run, call := b.running(nightly())
	tries := []error{errGone, errGone}
	on(b.sidecar, func(*leaseholdv1.CompleteRunRequest) (*leaseholdv1.CompleteRunResponse, error) {
		if len(tries) == 0 {
			return &leaseholdv1.CompleteRunResponse{Result: leaseholdv1.CompletionResult_COMPLETION_RESULT_RECORDED_LATE}, nil
		}
		err := tries[0]
		tries = tries[1:]
		return nil, err
	})
	b.clock.advance(58)
	lossOf(t, run.hold)
	receive(t, "the end of the stream", call.over)
	done, err := run.Succeed(run.Context())
	if calls := b.sidecar.calls(); err != nil || done.Result != CompletionResultRecordedLate || len(calls) != 3 {
		t.Error(done, err, calls)
	}
	_, run, call = b.running(nightly())
	fails[leaseholdv1.CompleteRunRequest](b.sidecar, status.Error(codes.InvalidArgument, "run_id is not one of ours"))
	if _, err := run.Succeed(t.Context()); status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
	receive(t, "the end of the stream", call.over)
}

func TestARunThatComesTooLateIsReturnedAndOneThatHasNoGrantIsAnError(t *testing.T) {
	b := newBench(t)
	asking := b.next(b.runsOf(nightly()))
	call := b.subscription()
	call.tell(standing)
	b.clock.advance(60)
	call.tell(aRun(1, 58_000), aRun(2, 118_000))
	if run := b.gotRun(asking); run.Attempt() != 2 {
		t.Error(run)
	}
	b.sidecar.wantCalls(t, "CompleteRun lease-1 run-1 RUN_OUTCOME_RETURNED 1")
	asking = b.next(b.runsOf(nightly()))
	nothing := &leaseholdv1.SubscribeScheduleResponse{Event: &leaseholdv1.SubscribeScheduleResponse_Run{Run: &leaseholdv1.Run{}}}
	b.subscription().tell(nothing)
	as[*ProtocolError](t, receive(t, "the answer", asking).err)
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
	if err := receive(t, "the answer", b.next(runs)).err; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	b.wantNoPlaces()
	_, run, _ := b.running(nightly())
	if err := b.client.Close(); err != nil || run.Valid() {
		t.Error(err)
	}
	if calls := b.sidecar.calls(); !slices.Equal(calls, []string{"CompleteRun lease-1 run-1 RUN_OUTCOME_RETURNED 1"}) {
		t.Error(calls)
	}
}

func TestACompletionOnAClosedClientEndsWithThat(t *testing.T) {
	b := newBench(t)
	_, run, _ := b.running(nightly())
	if err := b.client.Close(); err != nil {
		t.Error(err)
	}
	done := make(chan error, 1)
	go func() { done <- errOf(run.Succeed(t.Context())) }()
	if err := receive(t, "the answer", done); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestS21ARunReportsProgressAndTakesInTheValidity(t *testing.T) {
	b := newBench(t)
	_, run, _ := b.running(nightly())
	answers[leaseholdv1.ReportProgressRequest](b.sidecar, &leaseholdv1.ReportProgressResponse{
		Validity: said{Until: 200_000, For: 200_000}.validity("ours"),
	})
	if err := run.ReportProgress(t.Context()); err != nil || run.Remaining() != 200*time.Second {
		t.Error(run.Remaining(), err)
	}
}

func TestS16ACompletionCarriesTheGenerationThatAResumeWasAnsweredWith(t *testing.T) {
	b := newBench(t)
	events := make(chan HoldEvent, 64)
	spec := nightly()
	spec.OnHoldEvent = func(event HoldEvent) { events <- event }
	_, run, _ := b.running(spec)
	want[Granted](t, events)
	b.kill()
	want[Interrupted](t, events)
	b.start()
	generations := make(chan uint64, 1)
	on(b.sidecar, func(request *leaseholdv1.CompleteRunRequest) (*leaseholdv1.CompleteRunResponse, error) {
		generations <- request.GetGeneration()
		return &leaseholdv1.CompleteRunResponse{Result: leaseholdv1.CompletionResult_COMPLETION_RESULT_RECORDED}, nil
	})
	resumed := aRun(2, 58_000)
	resumed.GetRun().Grant.Generation = 2
	b.subscription().tell(resumed)
	want[Resumed](t, events)
	if _, err := run.Succeed(t.Context()); err != nil {
		t.Error(err)
	}
	if generation := receive(t, "the generation", generations); generation != 2 {
		t.Error(generation)
	}
}
