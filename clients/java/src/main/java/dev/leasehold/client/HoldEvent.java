package dev.leasehold.client;

import dev.leasehold.v1.LockRecord;
import java.time.Duration;
import java.util.Optional;

/** What happens to a hold. */
public sealed interface HoldEvent {
  /**
   * The lock is busy, and the caller waits for it.
   *
   * @param place the place among those who wait at this sidecar; 1 is next
   * @param record the lock's record, as far as it is known
   */
  record Waiting(int place, LockRecord record) implements HoldEvent {}

  /**
   * The caller has the lock.
   *
   * @param lockPath the path of the lock
   * @param fencingToken greater than every token granted for this lock before
   * @param validUntil the end of validity, unless renewed
   */
  record Granted(String lockPath, long fencingToken, BootInstant validUntil) implements HoldEvent {}

  /**
   * The hold was renewed.
   *
   * @param validUntil the end of its validity
   */
  record Renewed(BootInstant validUntil) implements HoldEvent {}

  /**
   * Renewals fail: stop what cannot be interrupted later.
   *
   * @param validUntil the end of validity, which is the deadline
   * @param cause what fails, such as {@code STORE_UNAVAILABLE}; empty for a cause that this client
   *     does not know
   * @param detail the same for people
   */
  record AtRisk(BootInstant validUntil, Optional<Reason> cause, String detail)
      implements HoldEvent {}

  /**
   * Renewals succeed again.
   *
   * @param validUntil the end of validity
   */
  record Recovered(BootInstant validUntil) implements HoldEvent {}

  /**
   * The sidecar is shutting down: finish and release.
   *
   * @param timeLeft how long it still waits
   */
  record Draining(Duration timeLeft) implements HoldEvent {}

  /**
   * The lock was broken, and its lease runs out: finish, save and release before the deadline.
   *
   * @param notice who broke it and why, and until when it is held
   */
  record Revoked(Notice notice) implements HoldEvent {}

  /**
   * The stream to the sidecar broke; the hold goes on until its validity ends, and is being
   * resumed.
   *
   * @param detail what happened, for people
   */
  record Interrupted(String detail) implements HoldEvent {}

  /**
   * The hold was resumed at the sidecar.
   *
   * @param validUntil the end of validity
   */
  record Resumed(BootInstant validUntil) implements HoldEvent {}

  /**
   * The hold is over. Nothing comes after this.
   *
   * @param loss why
   */
  record Lost(Loss loss) implements HoldEvent {}
}
