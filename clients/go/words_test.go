package leasehold

import (
	"encoding/json"
	"errors"
	"testing"
	"time"
)

// sentence is a line of proto/vectors/words.jsonl.
type sentence struct {
	Error    string
	Says     string
	LockPath string `json:"lock_path"`
	Reason   string
	Detail   string
	Cause    string

	Holder               string
	HolderIsLastRecorded bool   `json:"holder_is_last_recorded"`
	HeldPermits          uint32 `json:"held_permits"`
	PriorityStatus       string `json:"priority_status"`

	Outcome   string
	Watermark time.Time
	Result    string
	Endpoint  string
	Problem   string
	Feature   string
}

func (w sentence) error() error {
	switch w.Error {
	case "busy":
		record := LockRecord{LockPath: w.LockPath, Holder: w.Holder, HolderIsLastRecorded: w.HolderIsLastRecorded}
		return &BusyError{Busy{
			Record: record, Reason: BusyReason(w.Reason), HeldPermits: w.HeldPermits,
			PriorityStatus: PriorityStatus(w.PriorityStatus),
		}}
	case "lost":
		return &LostError{Reason: LossReason(w.Reason), Detail: w.Detail}
	case "release_unconfirmed":
		return &ReleaseUnconfirmedError{w.LockPath, errors.New(w.Cause)}
	case "checkpoint_unknown":
		return &CheckpointUnknownError{Detail: w.Cause}
	case "occurrence_over":
		if w.Outcome != "" {
			return &OccurrenceOverError{Run: &EndedRun{Outcome: RunOutcome(w.Outcome)}}
		}
		return &OccurrenceOverError{Watermark: w.Watermark}
	case "outcome_not_recorded":
		return &OutcomeNotRecordedError{OutcomeResult(w.Result)}
	case "endpoint":
		return &EndpointError{w.Endpoint, w.Problem}
	case "protocol":
		return &ProtocolError{w.Problem}
	case "unsupported":
		return unknownCalls(w.Feature)
	}
	return errors.New(w.Error + " is no error of this client")
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
