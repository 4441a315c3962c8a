package leasehold

import (
	"encoding/json"
	"errors"
	"testing"
	"time"
)

// sentence is a line of proto/vectors/words.jsonl.
type sentence struct {
	Error, Says, Reason, Detail, Cause, Holder, Outcome, Result, Endpoint, Problem, Feature string

	LockPath             string `json:"lock_path"`
	HolderIsLastRecorded bool   `json:"holder_is_last_recorded"`
	HeldPermits          uint32 `json:"held_permits"`
	PriorityStatus       string `json:"priority_status"`
	Watermark            time.Time
}

func (w sentence) error() error {
	record := LockRecord{LockPath: w.LockPath, Holder: w.Holder, HolderIsLastRecorded: w.HolderIsLastRecorded}
	over := &OccurrenceOverError{Watermark: w.Watermark}
	if w.Outcome != "" {
		over = &OccurrenceOverError{Run: &EndedRun{Outcome: RunOutcome(w.Outcome)}}
	}
	return map[string]error{
		"busy":                 &BusyError{Busy{record, 0, BusyReason(w.Reason), w.HeldPermits, PriorityStatus(w.PriorityStatus)}},
		"lost":                 &LostError{Reason: LossReason(w.Reason), Detail: w.Detail},
		"release_unconfirmed":  &ReleaseUnconfirmedError{w.LockPath, errors.New(w.Cause)},
		"checkpoint_unknown":   &CheckpointUnknownError{Detail: w.Cause},
		"occurrence_over":      over,
		"outcome_not_recorded": &OutcomeNotRecordedError{OutcomeResult(w.Result)},
		"endpoint":             &EndpointError{w.Endpoint, w.Problem},
		"protocol":             &ProtocolError{w.Problem},
		"unsupported":          unknownCalls(w.Feature),
	}[w.Error]
}

// TestWhatIsSaidIsWhatAllClientsSay makes the errors that the clients have in common, each in the words of the list.
func TestWhatIsSaidIsWhatAllClientsSay(t *testing.T) {
	lines := linesOf(t, "words.jsonl")
	want(t, len(lines) >= 20, len(lines))
	for _, text := range lines {
		var line sentence
		err := json.Unmarshal([]byte(text), &line)
		want(t, err == nil && line.error().Error() == line.Says, text, err, line.error())
	}
}
