package leasehold

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"

	leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"
)

// Code is a gRPC status code, by its name in the API.
type Code string

// The codes.
const (
	CodeOK                 Code = "OK"
	CodeCancelled          Code = "CANCELLED"
	CodeUnknown            Code = "UNKNOWN"
	CodeInvalidArgument    Code = "INVALID_ARGUMENT"
	CodeDeadlineExceeded   Code = "DEADLINE_EXCEEDED"
	CodeNotFound           Code = "NOT_FOUND"
	CodeAlreadyExists      Code = "ALREADY_EXISTS"
	CodePermissionDenied   Code = "PERMISSION_DENIED"
	CodeResourceExhausted  Code = "RESOURCE_EXHAUSTED"
	CodeFailedPrecondition Code = "FAILED_PRECONDITION"
	CodeAborted            Code = "ABORTED"
	CodeOutOfRange         Code = "OUT_OF_RANGE"
	CodeUnimplemented      Code = "UNIMPLEMENTED"
	CodeInternal           Code = "INTERNAL"
	CodeUnavailable        Code = "UNAVAILABLE"
	CodeDataLoss           Code = "DATA_LOSS"
	CodeUnauthenticated    Code = "UNAUTHENTICATED"
)

// byNumber has the codes in the order of their numbers on the wire.
var byNumber = [...]Code{
	CodeOK, CodeCancelled, CodeUnknown, CodeInvalidArgument, CodeDeadlineExceeded, CodeNotFound, CodeAlreadyExists,
	CodePermissionDenied, CodeResourceExhausted, CodeFailedPrecondition, CodeAborted, CodeOutOfRange,
	CodeUnimplemented, CodeInternal, CodeUnavailable, CodeDataLoss, CodeUnauthenticated,
}

func codeFrom(wire codes.Code) Code {
	if int(wire) < len(byNumber) {
		return byNumber[wire]
	}
	return CodeUnknown
}

// LockMode is what a lock is for; a part of its name. The zero value is treated as [LockModeFunction].
type LockMode int32

// The modes.
const (
	// LockModeFunction is held while a function runs.
	LockModeFunction LockMode = 1
	// LockModeListener is held while a listener listens.
	LockModeListener LockMode = 2
)

// String is the mode's name in the API.
func (m LockMode) String() string {
	return strings.TrimPrefix(leaseholdv1.LockMode(m).String(), "LOCK_MODE_")
}

// LockState is what a lock is doing. A state that this version of the client does not know is [LockStateHeld].
type LockState string

// The states.
const (
	// LockStateAvailable says that nobody holds the lock.
	LockStateAvailable LockState = "AVAILABLE"
	// LockStateHeld says that somebody holds the lock.
	LockStateHeld LockState = "HELD"
	// LockStateBreaking says that the lock was broken, and nobody gets it before the old lease has expired.
	LockStateBreaking LockState = "BREAKING"
	// LockStateResting says that the lock was released, and rests because of MinHold.
	LockStateResting LockState = "RESTING"
)

// BusyReason is why a lock is busy. A reason that this version of the client does not know is [BusyReasonHeld].
type BusyReason string

// The reasons.
const (
	// BusyReasonHeld says that somebody else holds the lock.
	BusyReasonHeld BusyReason = "HELD"
	// BusyReasonBreaking says that the lock was broken, and the old lease has not expired yet.
	BusyReasonBreaking BusyReason = "BREAKING"
	// BusyReasonResting says that the lock was released, and rests because of the last holder's MinHold.
	BusyReasonResting BusyReason = "RESTING"
)

// PriorityStatus is why a caller with a priority waits all the same (S33). A status that this version of the client does
// not know is [PriorityStatusNone].
type PriorityStatus string

// The statuses.
const (
	// PriorityStatusNone says that the caller gave no priority, or that nothing is known of the holder.
	PriorityStatusNone PriorityStatus = ""
	// PriorityStatusHolderDoesNotYield says that the holder does not yield: it is waited for like any other.
	PriorityStatusHolderDoesNotYield PriorityStatus = "HOLDER_DOES_NOT_YIELD"
	// PriorityStatusNotGreater says that the holder's priority is not smaller than the caller's.
	PriorityStatusNotGreater PriorityStatus = "NOT_GREATER"
	// PriorityStatusWaitedTooShort says that the caller has not waited for a lease duration yet, or tried only once.
	PriorityStatusWaitedTooShort PriorityStatus = "WAITED_TOO_SHORT"
	// PriorityStatusBrokenRecently says that the lock was broken less than two lease durations ago.
	PriorityStatusBrokenRecently PriorityStatus = "BROKEN_RECENTLY"
	// PriorityStatusRevoked says that the holder was told, and has until its lease expires to finish.
	PriorityStatusRevoked PriorityStatus = "REVOKED"
	// PriorityStatusCannotBreak says that the store refuses to break leases with the sidecar's credentials.
	PriorityStatusCannotBreak PriorityStatus = "CANNOT_BREAK"
	// PriorityStatusReserved says that the lock is reserved for a caller of greater priority that had it broken.
	PriorityStatusReserved PriorityStatus = "RESERVED"
)

// LossReason is why a hold was lost. A reason that this version of the client does not know is
// [LossReasonUnspecified].
type LossReason string

// The reasons.
const (
	// LossReasonUnspecified is a reason that is not one of the sidecar's.
	LossReasonUnspecified LossReason = "UNSPECIFIED"
	// LossReasonExpired says that the validity ended without a renewal.
	LossReasonExpired LossReason = "EXPIRED"
	// LossReasonTaken says that somebody else has held the lock since.
	LossReasonTaken LossReason = "TAKEN"
	// LossReasonBroken says that an operator broke the lock, or a caller of greater priority: see BreakNote.ForPriority.
	LossReasonBroken LossReason = "BROKEN"
	// LossReasonLockDeleted says that the lock or its container was deleted.
	LossReasonLockDeleted LossReason = "LOCK_DELETED"
	// LossReasonMaxHoldReached says that the hold lasted as long as MaxHold allows.
	LossReasonMaxHoldReached LossReason = "MAX_HOLD_REACHED"
	// LossReasonNoProgress says that progress was not reported for ProgressTimeout.
	LossReasonNoProgress LossReason = "NO_PROGRESS"
	// LossReasonShutdown says that the sidecar shut down, and its drain period was over.
	LossReasonShutdown LossReason = "SHUTDOWN"
)

// ReleaseOutcome is what a release did.
type ReleaseOutcome string

// The outcomes.
const (
	// ReleaseOutcomeUnspecified is an outcome that this version of the client does not know.
	ReleaseOutcomeUnspecified ReleaseOutcome = "UNSPECIFIED"
	// ReleaseOutcomeReleased says that the lock is free, or the next waiter's.
	ReleaseOutcomeReleased ReleaseOutcome = "RELEASED"
	// ReleaseOutcomeAlreadyLost says that the hold had been lost before.
	ReleaseOutcomeAlreadyLost ReleaseOutcome = "ALREADY_LOST"
	// ReleaseOutcomeAlreadyReleased says that the hold had been released before.
	ReleaseOutcomeAlreadyReleased ReleaseOutcome = "ALREADY_RELEASED"
	// ReleaseOutcomeResting says that the hold is over, and the lock rests because of MinHold.
	ReleaseOutcomeResting ReleaseOutcome = "RESTING"
	// ReleaseOutcomeNotConfirmed says that the store did not confirm the release before the lease expired. The lock is
	// available, and it is not known whether the hold lasted until its release.
	ReleaseOutcomeNotConfirmed ReleaseOutcome = "NOT_CONFIRMED"
)

// TokenStatus is what a fencing token is, compared with the newest of its lock. A status that this version of the
// client does not know is [TokenStatusStale].
type TokenStatus string

// The statuses.
const (
	// TokenStatusCurrent is the newest token. Whether its hold goes on is not said.
	TokenStatusCurrent TokenStatus = "CURRENT"
	// TokenStatusStale is an older token: refuse what comes with it.
	TokenStatusStale TokenStatus = "STALE"
	// TokenStatusUnknown is a token that is newer than any that is known.
	TokenStatusUnknown TokenStatus = "UNKNOWN"
)

// BreakOutcome is what a break did.
type BreakOutcome string

// The outcomes.
const (
	// BreakOutcomeUnspecified is an outcome that this version of the client does not know.
	BreakOutcomeUnspecified BreakOutcome = "UNSPECIFIED"
	// BreakOutcomeBreaking says that the lease runs out.
	BreakOutcomeBreaking BreakOutcome = "BREAKING"
	// BreakOutcomeBroken says that the lock is free.
	BreakOutcomeBroken BreakOutcome = "BROKEN"
	// BreakOutcomeNotHeld says that nobody held the lock, so nothing was broken.
	BreakOutcomeNotHeld BreakOutcome = "NOT_HELD"
)

// BreakMode is how a break ends a lease.
type BreakMode string

// The modes.
const (
	// BreakModeUnspecified says that the note does not tell, or that this version of the client does not know the mode.
	BreakModeUnspecified BreakMode = "UNSPECIFIED"
	// BreakModeRunOut says that the lease is not renewed any more and expires.
	BreakModeRunOut BreakMode = "RUN_OUT"
	// BreakModeNow says that the lease ends at once.
	BreakModeNow BreakMode = "NOW"
)

// HoldState is the state of a hold that is not over.
type HoldState string

// The states.
const (
	// HoldStateUnspecified is a state that this version of the client does not know: go by the validity.
	HoldStateUnspecified HoldState = "UNSPECIFIED"
	// HoldStateHeld says that it is held and renewed.
	HoldStateHeld HoldState = "HELD"
	// HoldStateAtRisk says that renewals fail.
	HoldStateAtRisk HoldState = "AT_RISK"
	// HoldStateRevoked says that the lock was broken, and the hold ends with its validity.
	HoldStateRevoked HoldState = "REVOKED"
	// HoldStateDisconnected says that its stream broke, and was not resumed yet.
	HoldStateDisconnected HoldState = "DISCONNECTED"
)

// nameOf gives the name of an enum's value on the wire without the enum's prefix; otherwise where it is unspecified, or
// a number that this version does not know.
func nameOf[E ~string](wire fmt.Stringer, prefix string, otherwise E) E {
	name, known := strings.CutPrefix(wire.String(), prefix)
	if !known || name == "UNSPECIFIED" {
		return otherwise
	}
	return E(name)
}
