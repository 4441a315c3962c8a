package leasehold

import (
	"cmp"
	"fmt"
	"time"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// OccurrenceOverError says that the occurrence that was asked for (LeaseSpec.Occurrence) is not granted any more: an
// answer of the sidecar, and no fault.
type OccurrenceOverError struct {
	// Run is how it has ended, of which an old record may have the outcome only; nil if it is skipped: it is older than one
	// that has an outcome, and none was recorded for it.
	Run *EndedRun
	// Watermark is the newest occurrence that has an outcome, where it is skipped; zero if that was not said.
	Watermark time.Time
}

func (e *OccurrenceOverError) Error() string {
	switch {
	case e.Run != nil:
		return "the occurrence is done: " + cmp.Or(string(e.Run.Outcome), "ended")
	case e.Watermark.IsZero():
		return "the occurrence is skipped: a newer one is done"
	default:
		return "the occurrence is skipped: a newer one is done, " + e.Watermark.UTC().Format(time.RFC3339)
	}
}

// occurrenceDone is the error for the answer that an occurrence has an outcome, to a call that may have named none.
func occurrenceDone(spec *leaseholdv1.LeaseSpec, done *leaseholdv1.AlreadyDone) error {
	if done.GetRun() == nil {
		return &ProtocolError{"an occurrence is done without saying how"}
	}
	return occurrenceOver(spec, &OccurrenceOverError{Run: endedFrom(done.GetRun())})
}

// occurrenceSkipped is the same for one that is skipped.
func occurrenceSkipped(spec *leaseholdv1.LeaseSpec, skipped *leaseholdv1.Skipped) error {
	return occurrenceOver(spec, &OccurrenceOverError{Watermark: moment(skipped.GetWatermark())})
}

func occurrenceOver(spec *leaseholdv1.LeaseSpec, over *OccurrenceOverError) error {
	if spec.GetOccurrenceAt() == nil {
		return &ProtocolError{"a call without an occurrence was answered with one"}
	}
	return over
}

// OutcomeNotRecordedError says that the lock was released, and that the outcome of its occurrence was not recorded, or that nobody
// knows whether it was. Ask for the occurrence again: it is granted once more, or it is said that it is done.
type OutcomeNotRecordedError struct {
	// Result is [OutcomeResultNotRecorded] or [OutcomeResultUnknown].
	Result OutcomeResult
}

func (e *OutcomeNotRecordedError) Error() string {
	problem := "the outcome of its occurrence was not recorded"
	if e.Result == OutcomeResultUnknown {
		problem = "it is not known whether the outcome of its occurrence was recorded"
	}
	return "the lock was released, and " + problem + "; ask for the occurrence again"
}

// WithOutcome says how the occurrence has ended that was asked for (LeaseSpec.Occurrence): SUCCEEDED and FAILED_FINAL make
// it final; after FAILED and RETURNED, and without an outcome, the next caller with it is granted it.
func WithOutcome(outcome RunOutcome) ReleaseOption {
	return func(r *releasing) { r.outcome = &outcome }
}

// outcomeToSend is the outcome that a release carries; UNSPECIFIED if there is none.
func outcomeToSend(outcome *RunOutcome) (leaseholdv1.RunOutcome, error) {
	if outcome == nil {
		return leaseholdv1.RunOutcome_RUN_OUTCOME_UNSPECIFIED, nil
	}
	switch *outcome {
	case RunOutcomeSucceeded, RunOutcomeFailed, RunOutcomeFailedFinal, RunOutcomeReturned:
		return leaseholdv1.RunOutcome(leaseholdv1.RunOutcome_value["RUN_OUTCOME_"+string(*outcome)]), nil
	default:
		problem := fmt.Sprintf("%q is no outcome of a holder; use SUCCEEDED, FAILED, FAILED_FINAL or RETURNED", *outcome)
		return leaseholdv1.RunOutcome_RUN_OUTCOME_UNSPECIFIED, invalidField("outcome", problem)
	}
}

// recordedFrom is what became of an outcome. A release that had none to record says nothing of it, and so does one
// that was repeated.
func recordedFrom(wire *leaseholdv1.ReleaseResult, released ReleaseOutcome) OutcomeResult {
	if wire.GetOutcomeResult() != leaseholdv1.OutcomeResult_OUTCOME_RESULT_UNSPECIFIED {
		return outcomeResultFrom(wire.GetOutcomeResult())
	}
	switch released {
	case ReleaseOutcomeReleased, ReleaseOutcomeResting, ReleaseOutcomeAlreadyLost:
		return OutcomeResultNotRecorded
	default:
		return OutcomeResultUnknown
	}
}
