package leasehold

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// due is an occurrence, and asksForIt a spec that names it.
var (
	due       = time.Date(2026, 11, 22, 2, 30, 0, 0, time.UTC)
	asksForIt = LeaseSpec{Occurrence: due, OccurrenceMaxAttempts: 3}
)

// overAs are the answers that an occurrence is over.
func overAs() (*leaseholdv1.AlreadyDone, *leaseholdv1.Skipped) {
	run := &leaseholdv1.EndedRun{
		ScheduledAt: timestamppb.New(due), Outcome: leaseholdv1.RunOutcome_RUN_OUTCOME_SUCCEEDED, Attempt: 2,
	}
	return &leaseholdv1.AlreadyDone{Run: run}, &leaseholdv1.Skipped{Watermark: timestamppb.New(due.Add(time.Hour))}
}

// wantOver is that an error says that an occurrence is done, or else skipped.
func wantOver(t *testing.T, err error, isDone bool) {
	t.Helper()
	var over *OccurrenceOverError
	switch {
	case !errors.As(err, &over):
		t.Error(err)
	case isDone:
		if over.Run == nil || over.Run.Outcome != RunOutcomeSucceeded || !over.Run.ScheduledAt.Equal(due) ||
			over.Run.Attempt != 2 || !strings.Contains(err.Error(), "done: SUCCEEDED") {
			t.Error(over.Run, err)
		}
	case over.Run != nil || !over.Watermark.Equal(due.Add(time.Hour)) ||
		!strings.Contains(err.Error(), "skipped") || !strings.Contains(err.Error(), "2026-11-22T03:30:00Z"):
		t.Error(over, err)
	}
}

// holdOf is a hold that was granted for an occurrence.
func (b *bench) holdOf(spec LeaseSpec, attempt uint32) *Hold {
	b.Helper()
	answer := b.ask(b.Context(), spec)
	call := b.call()
	event := granted(validity(ours, 1_058, 58))
	event.GetGranted().Attempt = attempt
	call.tell(event)
	asked := receive(b.T, "the hold", answer)
	if asked.err != nil {
		b.Fatal(asked.err)
	}
	return asked.hold
}

func TestT2AnOccurrenceIsAskedForAndItsAttemptTold(t *testing.T) {
	b := newBench(t)
	answer := b.ask(t.Context(), asksForIt)
	call := b.call()
	spec := call.request.GetSpec()
	if !spec.GetOccurrenceAt().AsTime().Equal(due) || spec.GetOccurrenceMaxAttempts() != 3 {
		t.Error(spec)
	}
	call.tell(busyWith("somebody"))
	var busy *BusyError
	if err := receive(t, "the answer", answer).err; !errors.As(err, &busy) {
		t.Error(err)
	}
	if hold := b.holdOf(asksForIt, 2); hold.Attempt() != 2 {
		t.Error(hold.Attempt())
	}
	b.sidecar.acquire = func(*leaseholdv1.LeaseSpec) (*leaseholdv1.AcquireLeaseResponse, error) {
		grant := &leaseholdv1.Grant{Attempt: 3}
		return &leaseholdv1.AcquireLeaseResponse{Outcome: &leaseholdv1.AcquireLeaseResponse_Granted{Granted: grant}}, nil
	}
	if grant, err := b.client.Acquire(t.Context(), asksForIt); err != nil || grant.Attempt != 3 {
		t.Error(grant, err)
	}
}

func TestT2AnOccurrenceThatIsOverIsAnErrorOfItsOwn(t *testing.T) {
	b := newBench(t)
	done, skipped := overAs()
	answers := map[*leaseholdv1.HoldLeaseResponse]*leaseholdv1.AcquireLeaseResponse{
		{Event: &leaseholdv1.HoldLeaseResponse_AlreadyDone{AlreadyDone: done}}: {
			Outcome: &leaseholdv1.AcquireLeaseResponse_AlreadyDone{AlreadyDone: done},
		},
		{Event: &leaseholdv1.HoldLeaseResponse_Skipped{Skipped: skipped}}: {
			Outcome: &leaseholdv1.AcquireLeaseResponse_Skipped{Skipped: skipped},
		},
	}
	for event, outcome := range answers {
		isDone := event.GetAlreadyDone() != nil
		b.sidecar.acquire = func(*leaseholdv1.LeaseSpec) (*leaseholdv1.AcquireLeaseResponse, error) { return outcome, nil }
		for _, spec := range []LeaseSpec{asksForIt, {}} {
			answer := b.ask(t.Context(), spec)
			call := b.call()
			// Also after a wait for who runs it.
			call.tell(waitingAt(1))
			call.tell(event)
			_, unary := b.client.Acquire(t.Context(), spec)
			for _, err := range []error{receive(t, "the answer", answer).err, unary} {
				var protocol *ProtocolError
				if !spec.Occurrence.IsZero() {
					wantOver(t, err, isDone)
				} else if !errors.As(err, &protocol) {
					t.Error(err)
				}
			}
			receive(t, "the end of the stream", call.over)
		}
	}
}

func TestT8AReleaseTellsTheOutcomeAndWhetherItWasRecorded(t *testing.T) {
	for result, wire := range map[OutcomeResult]leaseholdv1.OutcomeResult{
		OutcomeResultRecorded:    leaseholdv1.OutcomeResult_OUTCOME_RESULT_RECORDED,
		OutcomeResultNotRecorded: leaseholdv1.OutcomeResult_OUTCOME_RESULT_NOT_RECORDED,
		OutcomeResultUnknown:     leaseholdv1.OutcomeResult_OUTCOME_RESULT_UNKNOWN,
	} {
		t.Run(string(result), func(t *testing.T) {
			b := newBench(t)
			b.sidecar.released = &leaseholdv1.ReleaseResult{
				Outcome: leaseholdv1.ReleaseOutcome_RELEASE_OUTCOME_RELEASED, OutcomeResult: wire,
				CheckpointOutcome: leaseholdv1.CheckpointOutcome_CHECKPOINT_OUTCOME_NOT_SAVED,
			}
			hold := b.holdOf(asksForIt, 1)
			released, err := hold.Release(t.Context(), WithOutcome(RunOutcomeFailed))
			wantOutcome(t, released, err, result)
			// The first release decides.
			if again, repeated := hold.Release(t.Context(), WithOutcome(RunOutcomeSucceeded)); again != released || repeated != err {
				t.Error(again, repeated)
			}
			both := []ReleaseOption{WithOutcome(RunOutcomeFailed), WithCheckpoint([]byte("v"))}
			released, err = b.client.Release(t.Context(), "lease-2", both...)
			wantOutcome(t, released, errors.Join(err), result)
			var unsaved *CheckpointError
			if !errors.As(err, &unsaved) {
				t.Error(err)
			}
			wanted := `release lease-1 of generation 1 FAILED; release lease-2 of generation 0 saving "v" FAILED`
			if calls := strings.Join(b.sidecar.calls(), "; "); calls != wanted {
				t.Error(calls)
			}
		})
	}
}

// wantOutcome is that a release says what became of its outcome, by its result and by its error.
func wantOutcome(t *testing.T, released ReleaseResult, err error, wanted OutcomeResult) {
	t.Helper()
	var failed *OutcomeNotRecordedError
	if released.OutcomeResult != wanted || errors.As(err, &failed) != (wanted != OutcomeResultRecorded) ||
		(failed != nil && (failed.Result != wanted || !strings.Contains(err.Error(), "ask for the occurrence again"))) {
		t.Error(released, err)
	}
}

func TestT8AReleaseThatSaysNothingOfItsOutcomeHasNotRecordedIt(t *testing.T) {
	b := newBench(t)
	for outcome, wanted := range map[leaseholdv1.ReleaseOutcome]OutcomeResult{
		leaseholdv1.ReleaseOutcome_RELEASE_OUTCOME_RELEASED:         OutcomeResultNotRecorded,
		leaseholdv1.ReleaseOutcome_RELEASE_OUTCOME_ALREADY_RELEASED: OutcomeResultUnknown,
	} {
		b.sidecar.released = &leaseholdv1.ReleaseResult{Outcome: outcome}
		released, err := b.client.Release(t.Context(), "lease-1", WithOutcome(RunOutcomeSucceeded))
		wantOutcome(t, released, err, wanted)
	}
	hold := b.holdOf(asksForIt, 1)
	b.clock.advance(58)
	released, err := hold.Release(t.Context(), WithOutcome(RunOutcomeSucceeded))
	var lost *LostError
	if !errors.As(err, &lost) || released.OutcomeResult != OutcomeResultNotRecorded {
		t.Error(released, err)
	}
}

func TestS19AnOutcomeThatNoHolderMaySayIsRefusedAndNothingReleased(t *testing.T) {
	b := newBench(t)
	hold := b.holdOf(asksForIt, 1)
	var refused *RefusedError
	for _, outcome := range []RunOutcome{RunOutcomeTimedOut, RunOutcomeNone, ""} {
		_, err := hold.Release(t.Context(), WithOutcome(outcome))
		if !errors.As(err, &refused) || refused.Reason != ReasonInvalidField || refused.Violations[0].Field != "outcome" {
			t.Error(err)
		}
	}
	if calls := b.sidecar.calls(); !hold.Valid() || len(calls) != 0 {
		t.Error(calls)
	}
}
