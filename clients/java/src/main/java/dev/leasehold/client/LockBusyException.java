package dev.leasehold.client;

import dev.leasehold.v1.Busy;
import dev.leasehold.v1.BusyReason;
import dev.leasehold.v1.LockRecord;
import dev.leasehold.v1.PriorityStatus;
import java.time.Duration;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalLong;

/** The lock was not acquired within the wait asked for: an answer of the sidecar, and no fault. */
public final class LockBusyException extends LeaseholdException {
  private static final long serialVersionUID = 1L;

  private static final String PRIORITY_STATUS = "PRIORITY_STATUS_";

  /** The sidecar's answer. */
  private final Busy busy;

  /**
   * For tests of code that uses a client.
   *
   * @param busy the answer
   */
  public LockBusyException(Busy busy) {
    super(describe(busy) + describePriority(busy));
    this.busy = busy;
  }

  private static String describe(Busy busy) {
    LockRecord record = busy.getRecord();
    String path = record.getLockPath();
    if (busy.getReason() == BusyReason.BUSY_REASON_RESTING) {
      return "the lock " + path + " is not available yet because of its last holder's min_hold";
    }
    if (busy.getReason() == BusyReason.BUSY_REASON_BREAKING) {
      return "the lock " + path + " was broken, and its old lease has not run out yet";
    }
    String holder = record.getHolder();
    if (!holder.isEmpty() && record.getHolderIsLastRecorded()) {
      return "the lock " + path + " is held; the last recorded holder is " + holder;
    }
    return "the lock " + path + " is held by " + (holder.isEmpty() ? "somebody else" : holder);
  }

  private static String describePriority(Busy busy) {
    return status(busy)
        .map(status -> status.name().substring(PRIORITY_STATUS.length()).replace('_', ' '))
        .map(status -> " (priority: " + status.toLowerCase(Locale.ROOT) + ")")
        .orElse("");
  }

  private static Optional<PriorityStatus> status(Busy busy) {
    PriorityStatus status = busy.getPriorityStatus();
    boolean known =
        status != PriorityStatus.PRIORITY_STATUS_UNSPECIFIED
            && status != PriorityStatus.UNRECOGNIZED;
    return known ? Optional.of(status) : Optional.empty();
  }

  /**
   * Who has the lock, or had it last, as far as it was recorded (see {@link #record()}).
   *
   * @return free text; empty if unknown
   */
  public String holder() {
    return busy.getRecord().getHolder();
  }

  /**
   * The fencing token of the lock's newest grant.
   *
   * @return the token, if it is known
   */
  public OptionalLong fencingToken() {
    LockRecord record = busy.getRecord();
    return record.hasFencingToken()
        ? OptionalLong.of(record.getFencingToken())
        : OptionalLong.empty();
  }

  /**
   * Why the lock is busy.
   *
   * @return the reason; one that this client does not know means that it is held
   */
  public BusyReason reason() {
    return busy.getReason();
  }

  /**
   * How many of the lock's permits were found held ({@link LeaseRequest#permits}).
   *
   * @return the number, as far as the sidecar knows
   */
  public int heldPermits() {
    return busy.getHeldPermits();
  }

  /**
   * Why the caller's priority did not free the lock ({@link LeaseRequest#priority}).
   *
   * @return the status; empty if the caller gave no priority, if nothing is known of the holder, or
   *     if this client does not know the status
   */
  public Optional<PriorityStatus> priorityStatus() {
    return status(busy);
  }

  /**
   * When to ask again.
   *
   * @return the time from now
   */
  public Duration retryAfter() {
    return Durations.fromWire(busy.getRetryAfter());
  }

  /**
   * The lock's record.
   *
   * @return the record, as far as it is known
   */
  public LockRecord record() {
    return busy.getRecord();
  }
}
