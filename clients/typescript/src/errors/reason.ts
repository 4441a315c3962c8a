// Why a call fails: the names that stand in the errors of the API.

import type { ErrorReason as WireReason } from "../../gen/leasehold/v1/errors.js";

/** Why a call fails. The values are stable names: `error.reason === Reason.HOLD_LOST`. */
export const Reason = {
  /** A field is missing or out of its range: see {@link RefusedError.violations} (S19). */
  INVALID_FIELD: "INVALID_FIELD",
  /** This sidecar has no hold with this lease id, or it ended long ago and was forgotten. */
  UNKNOWN_LEASE: "UNKNOWN_LEASE",
  /** The lock to break does not exist in the store. */
  UNKNOWN_LOCK: "UNKNOWN_LOCK",
  /** The hold is lost: see {@link RefusedError.lossReason}. */
  HOLD_LOST: "HOLD_LOST",
  /** The hold was released. */
  HOLD_RELEASED: "HOLD_RELEASED",
  /** The operator has not enabled breaking. */
  BREAK_NOT_ENABLED: "BREAK_NOT_ENABLED",
  /** The grant to break is over, and the lock has another holder. */
  OTHER_HOLDER: "OTHER_HOLDER",
  /** The container does not exist, and the sidecar may not create it. */
  CONTAINER_MISSING: "CONTAINER_MISSING",
  /** No rule of the operator allows this caller to do this with this lock. */
  ACCESS_DENIED: "ACCESS_DENIED",
  /** The operator does not allow host id and host type in requests. */
  OVERRIDE_FORBIDDEN: "OVERRIDE_FORBIDDEN",
  /** The store refuses the sidecar's credentials. */
  STORE_DENIED: "STORE_DENIED",
  /** The user of this process may not use the Unix socket. */
  USER_NOT_ALLOWED: "USER_NOT_ALLOWED",
  /** The bearer token is missing or wrong. */
  UNAUTHENTICATED: "UNAUTHENTICATED",
  /** The store was unreachable until the call timed out. */
  STORE_UNAVAILABLE: "STORE_UNAVAILABLE",
  /** The store throttles requests. */
  STORE_THROTTLED: "STORE_THROTTLED",
  /** The sidecar is shutting down. */
  SHUTTING_DOWN: "SHUTTING_DOWN",
  /** The store is damaged or misconfigured, or its disk is full. */
  STORE_FAILED: "STORE_FAILED",
  /** The store has as many locks as it may, and this would be another. */
  STORE_FULL: "STORE_FULL",
  /** The store fell back to an older copy of the lock. */
  TOKEN_NOT_GROWING: "TOKEN_NOT_GROWING",
  /** The lock's stored fencing token exists but cannot be read. */
  TOKEN_UNREADABLE: "TOKEN_UNREADABLE",
  /** Nobody ever subscribed to a schedule on this lock. */
  UNKNOWN_SCHEDULE: "UNKNOWN_SCHEDULE",
  /** The occurrence is later than the store's time: the caller's clock may be wrong. */
  OCCURRENCE_IN_FUTURE: "OCCURRENCE_IN_FUTURE",
  /** The operator has not enabled changes of schedules (`admin.allow_schedule_changes`). */
  SCHEDULE_CHANGES_NOT_ENABLED: "SCHEDULE_CHANGES_NOT_ENABLED",
  /** As many runs by hand wait as may. */
  TOO_MANY_TRIGGERS: "TOO_MANY_TRIGGERS",
  /** The schedule's stored plan or record cannot be read, so nothing is run. */
  SCHEDULE_UNREADABLE: "SCHEDULE_UNREADABLE",
  /** An operator has removed the schedule; a new subscription begins it anew. */
  SCHEDULE_REMOVED: "SCHEDULE_REMOVED",
  /** The schedule has subscribers at this sidecar, and is removed only by force. */
  SCHEDULE_HAS_SUBSCRIBERS: "SCHEDULE_HAS_SUBSCRIBERS",
  /** The lock has a schedule, so its callers cannot name occurrences themselves. */
  LOCK_HAS_SCHEDULE: "LOCK_HAS_SCHEDULE",
  /** The sidecar has as many holds as it may. */
  TOO_MANY_HOLDS: "TOO_MANY_HOLDS",
  /** The sidecar has as many waiting callers as it may. */
  TOO_MANY_WAITERS: "TOO_MANY_WAITERS",
  /** The sidecar is at a limit, which the message names. */
  LIMIT_REACHED: "LIMIT_REACHED",
  /** Another stream has resumed the hold. */
  SUPERSEDED: "SUPERSEDED",
  /** This client did not read its events in time; the hold can be resumed. */
  STREAM_BEHIND: "STREAM_BEHIND",
  /** The sidecar does not know something that was asked for, mostly because it is older (S37). */
  UNSUPPORTED: "UNSUPPORTED",
  /** The validity ended before the store answered a save (S27): see {@link CheckpointUnknownError}. */
  CHECKPOINT_UNKNOWN: "CHECKPOINT_UNKNOWN",
} as const;

/** One of the reasons, or the name of one that this version of the client does not know. */
export type Reason = (typeof Reason)[keyof typeof Reason] | (string & Record<never, never>);

/** The name of a reason that is an enum on the wire; `UNRECOGNIZED` for one that this version does not know. */
export function reasonNamed(reason: WireReason): Reason {
  return reason.replace(/^ERROR_REASON_/, "");
}
