package leasehold

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// LockRecord is a lock as the store and the sidecar know it. It may be out of date, and excludes nobody. A field that is
// not known has its zero value.
type LockRecord struct {
	// LockPath is the lock path: container, slash, name in the container.
	LockPath string
	// HostID is the host id in the path; empty where the path does not show one.
	HostID string
	// Key is the key that the lock was last acquired by; the zero value if it was never acquired through Leasehold.
	Key LockKey
	// State is what the lock is doing.
	State LockState
	// FencingToken is the token of the newest grant; 0 if there was none.
	FencingToken uint64
	// Holder is who holds the lock, or held it last.
	Holder string
	// HostType is the host type of the holder.
	HostType string
	// Labels are those of the holder.
	Labels map[string]string
	// AcquiredAt is when the newest grant was made, by the store's clock.
	AcquiredAt time.Time
	// RestingUntil is until when nobody gets the lock because of MinHold; zero if it does not rest.
	RestingUntil time.Time
	// WrittenAt is when the record was last written; zero if the lock does not exist in the store yet, while this sidecar
	// has the lock, and in a watch of many locks.
	WrittenAt time.Time
	// WaitersHere is how many callers wait for the lock at this sidecar.
	WaitersHere uint32
	// HeldHere is whether the lock is held through this sidecar.
	HeldHere bool
	// HolderIsLastRecorded is whether Holder was only recorded last, and somebody who leaves no record may hold the
	// lock: a WebJobs host.
	HolderIsLastRecorded bool
	// BreakNote is the newest break of the lock; nil if it was never broken.
	BreakNote *BreakNote
	// LeaseDuration is the duration of the lease that the holder asked for; zero unless the lock is held here.
	LeaseDuration time.Duration
	// RenewedAt is when the lease was renewed last, by the store's clock; zero unless the lock is held here.
	RenewedAt time.Time
	// Permits is how many permits the holder of the newest grant asked for; 0 if the record does not say.
	Permits uint32
	// Permit is which permit this is: 0 for the lock's own path.
	Permit uint32
	// Sidecar is which sidecar acquired the lock: its name and a number of the process; empty if the record does not say.
	Sidecar string
	// Share is the group of like locks that the holder named: see LeaseSpec.Share. Empty for none.
	Share string
	// Priority is the holder's: see LeaseSpec.Priority.
	Priority uint32
	// Yields is whether the holder yields to a greater priority.
	Yields bool
	// Reserved is for whom the lock is kept after a break; nil if it is for nobody in particular.
	Reserved *Reservation
	// KeptUntil is until when the sidecar that answers grants the lock to nobody, by its wall clock, because the lock's
	// former holder there may not know that its hold is over (S13). Zero if it is not kept for such a holder.
	KeptUntil time.Time
	// CheckpointVersion is the version of the lock's checkpoint; 0 if there is none. [Client.GetCheckpoint] reads it.
	CheckpointVersion uint64
	// CheckpointSize is the size of the checkpoint in bytes; 0 if there is none, or if it is empty.
	CheckpointSize uint32
}

func recordFrom(wire *leaseholdv1.LockRecord) LockRecord {
	return LockRecord{
		LockPath: wire.GetLockPath(), HostID: wire.GetHostId(), Key: keyFrom(wire.GetKey()),
		State:        lockStateFrom(wire.GetState()),
		FencingToken: wire.GetFencingToken(), Holder: wire.GetHolder(), HostType: wire.GetHostType(),
		Labels: maps.Clone(wire.GetLabels()), AcquiredAt: moment(wire.GetAcquiredAt()),
		RestingUntil: moment(wire.GetRestingUntil()), WrittenAt: moment(wire.GetWrittenAt()),
		WaitersHere: wire.GetWaitersHere(), HeldHere: wire.GetHeldHere(),
		HolderIsLastRecorded: wire.GetHolderIsLastRecorded(), BreakNote: noteFrom(wire.GetBreakNote()),
		LeaseDuration: duration(wire.GetLeaseDuration()), RenewedAt: moment(wire.GetRenewedAt()),
		Permits: wire.GetPermits(), Permit: wire.GetPermit(), Sidecar: wire.GetSidecar(), Share: wire.GetShare(),
		Priority: wire.GetPriority(), Yields: wire.GetYields(), Reserved: reservationFrom(wire.GetReserved()),
		CheckpointVersion: wire.GetCheckpointVersion(), CheckpointSize: wire.GetCheckpointSize(),
		KeptUntil: moment(wire.GetKeptUntil()),
	}
}

// Reservation is for whom a lock is kept for a short while, after it was broken for a caller of greater priority (S33).
type Reservation struct {
	// Priority is the smallest that is granted the lock.
	Priority uint32
	// Until is until when, by the store's clock.
	Until time.Time
}

func reservationFrom(wire *leaseholdv1.Reservation) *Reservation {
	if wire == nil {
		return nil
	}
	return &Reservation{wire.GetPriority(), moment(wire.GetUntil())}
}

// BreakNote is why, by whom and when a lock was broken.
type BreakNote struct {
	// Reason is the reason, in words: the operator's, or the sidecar's.
	Reason string
	// BrokenBy is who broke the lock.
	BrokenBy string
	// BrokenAt is when, by the wall clock of the sidecar that broke it.
	BrokenAt time.Time
	// FencingToken is the token of the hold that was broken; 0 if it was not known.
	FencingToken uint64
	// Mode is how the lease was broken.
	Mode BreakMode
	// ForPriority is the priority of the waiting caller for which the lock was broken (S33); nil if an operator broke it.
	ForPriority *uint32
}

func noteFrom(wire *leaseholdv1.BreakNote) *BreakNote {
	if wire == nil {
		return nil
	}
	note := &BreakNote{
		Reason: wire.GetReason(), BrokenBy: wire.GetBrokenBy(), BrokenAt: moment(wire.GetBrokenAt()),
		FencingToken: wire.GetFencingToken(), Mode: breakModeFrom(wire.GetMode()),
	}
	if wire.ForPriority != nil {
		note.ForPriority = new(wire.GetForPriority())
	}
	return note
}

// Validity is until when a holder may act, in the sidecar's words.
type Validity struct {
	// BootID says whose boot clock ValidUntil is a reading of: readings compare only where it is the same and not empty.
	BootID string
	// ValidUntil is the end of validity on that clock.
	ValidUntil BootInstant
	// ValidFor is the duration from when the message was made to the end of validity. Count it only from before the
	// request that the message answers (S21).
	ValidFor time.Duration
}

func validityFrom(wire *leaseholdv1.Validity) Validity {
	until := wire.GetValidUntil()
	return Validity{
		BootID: until.GetBootId(), ValidUntil: BootInstant(duration(until.GetSinceBoot())),
		ValidFor: duration(wire.GetValidFor()),
	}
}

// Grant is what makes the caller of [Client.Acquire] a holder.
type Grant struct {
	// LeaseID names this hold in later calls. Who knows it can end the hold, so do not log it.
	LeaseID string
	// LockPath is the path of the lock.
	LockPath string
	// HostID is the host id in that path.
	HostID string
	// FencingToken is greater than every token granted for this lock before (S5): 1 to 2^53 - 1.
	FencingToken uint64
	// Validity is until when the holder may act, unless renewed, as it was at the grant.
	Validity Validity
	// MaxHoldEnds is when MaxHold ends; nil if there is no limit.
	MaxHoldEnds *Deadline
	// Permit is which permit of the lock was granted, from 0: see LeaseSpec.Permits.
	Permit uint32
	// Attempt is which attempt at LeaseSpec.Occurrence this is, from 1; 0 if none was asked for. Greater than 1 says that
	// an earlier holder failed, or died without an outcome, so the work may have been done in part.
	Attempt uint32
	// Checkpoint is the lock's checkpoint as the last holder left it; nil if there is none (S25).
	Checkpoint *Checkpoint
	// AcquiredAt is when the grant was made, by the wall clock; for people.
	AcquiredAt time.Time
	// ExpiresAt is when the validity ends unless renewed, by the wall clock; for people, and never to be counted on.
	ExpiresAt time.Time
}

func grantFrom(wire *leaseholdv1.Grant) Grant {
	return Grant{
		LeaseID: wire.GetLeaseId(), LockPath: wire.GetLockPath(), HostID: wire.GetHostId(),
		FencingToken: wire.GetFencingToken(), Validity: validityFrom(wire.GetValidity()),
		MaxHoldEnds: deadlineFrom(wire.GetMaxHoldEnds()), Permit: wire.GetPermit(),
		Attempt: wire.GetAttempt(), Checkpoint: checkpointFrom(wire.GetCheckpoint()),
		AcquiredAt: moment(wire.GetAcquiredAt()), ExpiresAt: moment(wire.GetExpiresAt()),
	}
}

// String shows the lock and the token, and not the lease id (S20).
func (g Grant) String() string {
	return fmt.Sprintf("grant of %s, token %d", g.LockPath, g.FencingToken)
}

// GoString is String.
func (g Grant) GoString() string { return g.String() }

// Busy is why a lock was not acquired.
type Busy struct {
	// Record is the lock's record, as far as it is known: who holds it, since when.
	Record LockRecord
	// RetryAfter is when to ask again, counted from the answer.
	RetryAfter time.Duration
	// Reason is why the lock is not available.
	Reason BusyReason
	// HeldPermits is how many of the permits were found held, as far as the sidecar knows: see LeaseSpec.Permits.
	HeldPermits uint32
	// PriorityStatus is why the caller's priority did not free the lock: see LeaseSpec.Priority.
	PriorityStatus PriorityStatus
}

func busyFrom(wire *leaseholdv1.Busy) Busy {
	return Busy{
		Record: recordFrom(wire.GetRecord()), RetryAfter: duration(wire.GetRetryAfter()),
		Reason: busyReasonFrom(wire.GetReason()), HeldPermits: wire.GetHeldPermits(),
		PriorityStatus: priorityStatusFrom(wire.GetPriorityStatus()),
	}
}

// ReleaseResult is what a release did.
type ReleaseResult struct {
	// Outcome is what happened.
	Outcome ReleaseOutcome
	// LossReason is why the hold had been lost; with ALREADY_LOST only.
	LossReason LossReason
	// RestingUntil is until when nobody gets the lock, by the store's clock; with RESTING only.
	RestingUntil time.Time
	// CheckpointOutcome is what became of the checkpoint that came with the release.
	CheckpointOutcome CheckpointOutcome
	// CheckpointVersion is the version of the checkpoint; with SAVED only.
	CheckpointVersion uint64
	// CheckpointDetail is why it was not saved, for people; with NOT_SAVED and UNKNOWN only.
	CheckpointDetail string
	// OutcomeResult is what became of the outcome that came with the release; empty if none did.
	OutcomeResult OutcomeResult
}

// incomplete is an error if the checkpoint was not saved or the outcome not recorded, or perhaps not; of both if need be.
func (r ReleaseResult) incomplete() error {
	var unsaved, unrecorded error
	switch r.CheckpointOutcome {
	case CheckpointOutcomeNotSaved:
		unsaved = &CheckpointNotSavedError{r.CheckpointDetail}
	case CheckpointOutcomeUnknown:
		unsaved = &CheckpointUnknownError{Detail: r.CheckpointDetail}
	}
	switch r.OutcomeResult {
	case OutcomeResultNotRecorded, OutcomeResultUnknown:
		unrecorded = &OutcomeNotRecordedError{r.OutcomeResult}
	}
	if unsaved != nil && unrecorded != nil {
		return errors.Join(unsaved, unrecorded)
	}
	return cmp.Or(unsaved, unrecorded)
}

// resultFrom is what a release did that was to do so much besides.
func resultFrom(wire *leaseholdv1.ReleaseResult, with releasing) ReleaseResult {
	result := ReleaseResult{
		Outcome:      releaseOutcomeFrom(wire.GetOutcome()),
		RestingUntil: moment(wire.GetRestingUntil()),
	}
	if result.Outcome == ReleaseOutcomeAlreadyLost {
		result.LossReason = lossReasonFrom(wire.GetLossReason())
	}
	if with.outcome != nil {
		result.OutcomeResult = recordedFrom(wire, result.Outcome)
	}
	if with.checkpoint != nil {
		result.CheckpointVersion, result.CheckpointDetail = wire.GetCheckpointVersion(), wire.GetCheckpointDetail()
		// A newer sidecar may say what is not known here.
		result.CheckpointOutcome = cmp.Or(checkpointOutcomeFrom(wire.GetCheckpointOutcome()), CheckpointOutcomeUnknown)
		if wire.GetCheckpointOutcome() == leaseholdv1.CheckpointOutcome_CHECKPOINT_OUTCOME_UNSPECIFIED {
			result.CheckpointOutcome, result.CheckpointDetail = unsaid(result.Outcome)
		}
	}
	return result
}

// unsaid is what became of a checkpoint of which a release says nothing (S37).
func unsaid(outcome ReleaseOutcome) (CheckpointOutcome, string) {
	switch outcome {
	case ReleaseOutcomeReleased, ReleaseOutcomeResting:
		return CheckpointOutcomeNotSaved, "the sidecar does not know checkpoints, because it is older than this request"
	case ReleaseOutcomeAlreadyLost:
		return CheckpointOutcomeNotSaved, "the hold had been lost before"
	default:
		return CheckpointOutcomeUnknown, "the hold had been released before"
	}
}

// Extension is the result of a new MaxHold.
type Extension struct {
	// Validity is until when the holder may act, unless renewed.
	Validity Validity
	// MaxHoldEndsAt is when the new MaxHold ends, by the wall clock; for people.
	MaxHoldEndsAt time.Time
	// MaxHoldEnds is the same moment for programs.
	MaxHoldEnds *Deadline
}

// TokenCheck is what a fencing token is, compared with the newest of its lock.
type TokenCheck struct {
	// Status is what the token is.
	Status TokenStatus
	// NewestFencingToken is the newest token of the lock that is known; 0 if it was never granted.
	NewestFencingToken uint64
}

// BreakResult is what a break did.
type BreakResult struct {
	// Outcome is what happened.
	Outcome BreakOutcome
	// FreeIn is when the lock is free, counted from the answer; with BREAKING only.
	FreeIn time.Duration
	// Record is what is known of the lock after the break.
	Record LockRecord
}

// ResolvedPath is the lock path of a key, and where it comes from.
type ResolvedPath struct {
	// LockPath is the path of the lock.
	LockPath string
	// HostID is the host id in it.
	HostID string
	// HostType is the host type that is recorded with the lock; empty if the sidecar has none.
	HostType string
	// Provider is where the host id came from.
	Provider string
	// Layout is how the lock name is made from the key.
	Layout string
}

// duration is a duration from the wire; zero for an absent or negative one, which only ends holds earlier.
func duration(wire *durationpb.Duration) time.Duration { return max(0, wire.AsDuration()) }

// moment is a moment from the wire; the zero time for an absent one.
func moment(wire *timestamppb.Timestamp) time.Time {
	if wire == nil {
		return time.Time{}
	}
	return wire.AsTime()
}
