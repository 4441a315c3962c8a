package dev.leasehold.client;

import dev.leasehold.v1.ErrorReason;
import java.util.Optional;

/** Why a call fails: the names of the API's {@code ErrorReason}, without its prefix. */
public enum Reason {
  /** A field is missing or out of its range: see {@link RefusedException#violations()}. */
  INVALID_FIELD,
  /** No hold of this sidecar has this lease id, or it was forgotten. */
  UNKNOWN_LEASE,
  /** The lock to be broken does not exist in the store. */
  UNKNOWN_LOCK,
  /** The hold is lost: see {@link RefusedException#lossReason()}. */
  HOLD_LOST,
  /** The hold was released. */
  HOLD_RELEASED,
  /** The operator has not enabled breaking. */
  BREAK_NOT_ENABLED,
  /** The grant to break is over, and the lock has another holder. */
  OTHER_HOLDER,
  /** The container does not exist and the sidecar may not make it. */
  CONTAINER_MISSING,
  /** No rule of the operator allows this caller to do this with this lock. */
  ACCESS_DENIED,
  /** The operator forbids host id and host type in requests. */
  OVERRIDE_FORBIDDEN,
  /** The store refuses the sidecar's credentials. */
  STORE_DENIED,
  /** The bearer token is missing or wrong. */
  UNAUTHENTICATED,
  /** The user of this process is not among those whom the socket lets in. */
  USER_NOT_ALLOWED,
  /** The store could not be reached in time. */
  STORE_UNAVAILABLE,
  /** The store asks for patience. */
  STORE_THROTTLED,
  /** The sidecar is going away. */
  SHUTTING_DOWN,
  /** The store is damaged or misconfigured, or its disk is full. */
  STORE_FAILED,
  /** The store has as many locks as it may, and this would be another. */
  STORE_FULL,
  /** The store fell back to an older copy of the lock. */
  TOKEN_NOT_GROWING,
  /** The lock's stored fencing token is there and cannot be read. */
  TOKEN_UNREADABLE,
  /** The sidecar has as many holds as it may. */
  TOO_MANY_HOLDS,
  /** The sidecar has as many waiters as it may. */
  TOO_MANY_WAITERS,
  /** The sidecar is at a limit, which the message names. */
  LIMIT_REACHED,
  /** Another stream has resumed the hold. */
  SUPERSEDED,
  /** This client did not read its events in time; the hold may be resumed. */
  STREAM_BEHIND,
  /**
   * Made by this client: the sidecar that answered is older than the request, and does not know a
   * field of it (S37).
   */
  UNSUPPORTED,
  /** The validity ended before the store answered a save (S27). */
  CHECKPOINT_UNKNOWN,
  /** Nobody ever subscribed to a schedule on this lock. */
  UNKNOWN_SCHEDULE,
  /** The occurrence is more than 5 s after the store's time: the caller's clock may be wrong. */
  OCCURRENCE_IN_FUTURE,
  /** The operator has not allowed changes of schedules. */
  SCHEDULE_CHANGES_NOT_ENABLED,
  /** Eight runs by hand wait already. */
  TOO_MANY_TRIGGERS,
  /** The schedule's stored plan or record cannot be read, so nothing is run. */
  SCHEDULE_UNREADABLE,
  /** An operator has removed the schedule; a new subscription begins it anew. */
  SCHEDULE_REMOVED,
  /** The schedule has subscribers at this sidecar, and is removed only by force. */
  SCHEDULE_HAS_SUBSCRIBERS,
  /** The lock has a schedule, and the caller named an occurrence of its own. */
  LOCK_HAS_SCHEDULE;

  private static final String PREFIX = "ERROR_REASON_";

  /** The reason of that number; empty for one that this version of the client does not know. */
  static Optional<Reason> of(ErrorReason reason) {
    String name = reason.name();
    return name.startsWith(PREFIX) ? parse(name.substring(PREFIX.length())) : Optional.empty();
  }

  /** The reason of that name; empty for one that this version of the client does not know. */
  static Optional<Reason> parse(String name) {
    for (Reason reason : values()) {
      if (reason.name().equals(name)) {
        return Optional.of(reason);
      }
    }
    return Optional.empty();
  }
}
