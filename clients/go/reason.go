package leasehold

import leaseholdv1 "github.com/leasehold/leasehold/clients/go/gen/leasehold/v1"

// Reason is why a call fails: the name of an ErrorReason of the API. A reason that this version of the client does not
// know is kept as it came.
type Reason string

// The reasons.
const (
	// ReasonInvalidField says that a field is missing or out of its range: see RefusedError.Violations.
	ReasonInvalidField Reason = "INVALID_FIELD"
	// ReasonUnknownLease says that no hold of this sidecar has this lease id, or it was forgotten.
	ReasonUnknownLease Reason = "UNKNOWN_LEASE"
	// ReasonUnknownLock says that the lock to be broken does not exist in the store.
	ReasonUnknownLock Reason = "UNKNOWN_LOCK"
	// ReasonHoldLost says that the hold is lost: see RefusedError.LossReason.
	ReasonHoldLost Reason = "HOLD_LOST"
	// ReasonHoldReleased says that the hold was released.
	ReasonHoldReleased Reason = "HOLD_RELEASED"
	// ReasonBreakNotEnabled says that the operator has not enabled breaking.
	ReasonBreakNotEnabled Reason = "BREAK_NOT_ENABLED"
	// ReasonOtherHolder says that the grant to break is over, and the lock has another holder.
	ReasonOtherHolder Reason = "OTHER_HOLDER"
	// ReasonContainerMissing says that the container does not exist and the sidecar may not make it.
	ReasonContainerMissing Reason = "CONTAINER_MISSING"
	// ReasonAccessDenied says that no rule of the operator allows this caller to do this with this lock.
	ReasonAccessDenied Reason = "ACCESS_DENIED"
	// ReasonOverrideForbidden says that the operator forbids host id and host type in requests.
	ReasonOverrideForbidden Reason = "OVERRIDE_FORBIDDEN"
	// ReasonStoreDenied says that the store refuses the sidecar's credentials.
	ReasonStoreDenied Reason = "STORE_DENIED"
	// ReasonUserNotAllowed says that the user of this process is not among those that the socket admits.
	ReasonUserNotAllowed Reason = "USER_NOT_ALLOWED"
	// ReasonUnauthenticated says that the bearer token is missing or wrong.
	ReasonUnauthenticated Reason = "UNAUTHENTICATED"
	// ReasonStoreUnavailable says that the store could not be reached in time.
	ReasonStoreUnavailable Reason = "STORE_UNAVAILABLE"
	// ReasonStoreThrottled says that the store limits the rate of requests.
	ReasonStoreThrottled Reason = "STORE_THROTTLED"
	// ReasonShuttingDown says that the sidecar is going away.
	ReasonShuttingDown Reason = "SHUTTING_DOWN"
	// ReasonStoreFailed says that the store is damaged or misconfigured, or its disk is full.
	ReasonStoreFailed Reason = "STORE_FAILED"
	// ReasonStoreFull says that the store has as many locks as it may, and this would be another.
	ReasonStoreFull Reason = "STORE_FULL"
	// ReasonTokenNotGrowing says that the store fell back to an older copy of the lock.
	ReasonTokenNotGrowing Reason = "TOKEN_NOT_GROWING"
	// ReasonTokenUnreadable says that the lock's stored fencing token is there and cannot be read.
	ReasonTokenUnreadable Reason = "TOKEN_UNREADABLE"
	// ReasonTooManyHolds says that the sidecar has as many holds as it may.
	ReasonTooManyHolds Reason = "TOO_MANY_HOLDS"
	// ReasonTooManyWaiters says that the sidecar has as many waiters as it may.
	ReasonTooManyWaiters Reason = "TOO_MANY_WAITERS"
	// ReasonLimitReached says that the sidecar is at a limit, which the message names.
	ReasonLimitReached Reason = "LIMIT_REACHED"
	// ReasonSuperseded says that another stream has resumed the hold.
	ReasonSuperseded Reason = "SUPERSEDED"
	// ReasonStreamBehind says that this client did not read its events in time; the hold may be resumed.
	ReasonStreamBehind Reason = "STREAM_BEHIND"
	// ReasonUnsupported says that the sidecar does not know a part of the request. This client finds it out (S37).
	ReasonUnsupported Reason = "UNSUPPORTED"
	// ReasonCheckpointUnknown says that the validity ended before the store answered a save: see [CheckpointError].
	ReasonCheckpointUnknown Reason = "CHECKPOINT_UNKNOWN"
	// ReasonUnknownSchedule says that nobody ever subscribed to the schedule.
	ReasonUnknownSchedule Reason = "UNKNOWN_SCHEDULE"
	// ReasonOccurrenceInFuture says that an occurrence lies after the store's time.
	ReasonOccurrenceInFuture Reason = "OCCURRENCE_IN_FUTURE"
	// ReasonScheduleChangesNotEnabled says that the operator has not enabled to pause schedules and run them by hand.
	ReasonScheduleChangesNotEnabled Reason = "SCHEDULE_CHANGES_NOT_ENABLED"
	// ReasonTooManyTriggers says that 8 runs by hand of the schedule wait already.
	ReasonTooManyTriggers Reason = "TOO_MANY_TRIGGERS"
	// ReasonScheduleUnreadable says that what the store has of the schedule cannot be read.
	ReasonScheduleUnreadable Reason = "SCHEDULE_UNREADABLE"
	// ReasonScheduleRemoved says that an operator has removed the schedule; a new subscription begins it anew.
	ReasonScheduleRemoved Reason = "SCHEDULE_REMOVED"
	// ReasonScheduleHasSubscribers says that the schedule has subscribers at this sidecar, and is removed only by force.
	ReasonScheduleHasSubscribers Reason = "SCHEDULE_HAS_SUBSCRIBERS"
	// ReasonLockHasSchedule says that the lock has a schedule, which names its occurrences itself.
	ReasonLockHasSchedule Reason = "LOCK_HAS_SCHEDULE"
)

// reasonFrom gives the name of a reason; its number where this version does not know it, and empty where there is none.
func reasonFrom(wire leaseholdv1.ErrorReason) Reason {
	if _, known := leaseholdv1.ErrorReason_name[int32(wire)]; !known {
		return Reason(wire.String())
	}
	return nameOf(wire, "ERROR_REASON_", Reason(""))
}
