package dev.leasehold.client;

import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.v1.Busy;
import dev.leasehold.v1.BusyReason;
import dev.leasehold.v1.LockRecord;
import dev.leasehold.v1.PriorityStatus;
import java.time.Duration;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalLong;

/** The lock was not acquired within the wait asked for: an answer of the sidecar, and no fault. */
public final class BusyException extends LeaseholdException {
  private static final long serialVersionUID = 1L;

  private static final String PRIORITY_STATUS = "PRIORITY_STATUS_";

  /** The sidecar's answer. */
  private final Busy busy;

  /**
   * For tests of code that uses a client.
   *
   * @param busy the answer
   */
  public BusyException(Busy busy) {
    super(describe(busy) + describePriority(busy));
    this.busy = busy;
  }

  private static String describe(Busy busy) {
    String path = busy.getRecord().getLockPath();
    return (path.isEmpty() ? "the lock" : "the lock " + path) + " is busy: " + why(busy);
  }

  /** In the words that all of Leasehold's clients use. */
  private static String why(Busy busy) {
    if (busy.getReason() == BusyReason.BUSY_REASON_BREAKING) {
      return "it was broken, and its lease has not expired yet";
    }
    if (busy.getReason() == BusyReason.BUSY_REASON_RESTING) {
      return "it rests, as its last holder asked (min_hold)";
    }
    if (busy.getHeldPermits() > 1) {
      return busy.getHeldPermits() + " permits of it are held";
    }
    LockRecord record = busy.getRecord();
    if (record.getHolder().isEmpty()) {
      return "held by somebody else";
    }
    // Quoted, and without control characters: it is a text of others.
    String holder = '"' + record.getHolder().replaceAll("\\p{Cntrl}", " ") + '"';
    return record.getHolderIsLastRecorded()
        ? "held, last recorded holder " + holder
        : "held by " + holder;
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
   * How many of the lock's permits were found held ({@link LeaseSpec#permits}).
   *
   * @return the number, as far as the sidecar knows
   */
  public int heldPermits() {
    return busy.getHeldPermits();
  }

  /**
   * Why the caller's priority did not free the lock ({@link LeaseSpec#priority}).
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
