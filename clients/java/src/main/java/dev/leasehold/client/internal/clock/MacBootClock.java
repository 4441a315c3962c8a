package dev.leasehold.client.internal.clock;

import dev.leasehold.client.BootInstant;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/**
 * A boot clock for macOS (S3), where Java reads none: its monotonic clock stops while the machine
 * sleeps, and the wall clock may be set. What the wall clock gains on the other is counted as
 * sleep, and what it loses is not taken back. A wall clock that is set forward ends holds earlier,
 * which is safe. Counts from the start of this process, so that it has no boot id, and is compared
 * with no sidecar's.
 */
final class MacBootClock implements BootClock {
  /** What the wall clock's whole milliseconds may hide. */
  private static final Duration GRAIN = Duration.ofMillis(10);

  /**
   * A wall clock that has lost more than this was set back, and what it gains counts from there.
   */
  private static final long SET_BACK_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

  private final LongSupplier monotonicNanos;
  private final LongSupplier wallMillis;
  private final long start;

  /** How far the wall clock was ahead of the monotonic one. */
  private long lead;

  private long asleep;

  MacBootClock(LongSupplier monotonicNanos, LongSupplier wallMillis) {
    this.monotonicNanos = monotonicNanos;
    this.wallMillis = wallMillis;
    this.start = monotonicNanos.getAsLong();
    this.lead = leadAt(start);
  }

  private long leadAt(long monotonic) {
    return TimeUnit.MILLISECONDS.toNanos(wallMillis.getAsLong()) - monotonic;
  }

  @Override
  public BootInstant latest() {
    return earliest().plus(GRAIN);
  }

  @Override
  public synchronized BootInstant earliest() {
    long now = monotonicNanos.getAsLong();
    long leadNow = leadAt(now);
    if (leadNow > lead) {
      asleep += leadNow - lead;
      lead = leadNow;
    } else if (lead - leadNow > SET_BACK_NANOS) {
      lead = leadNow;
    }
    return new BootInstant(Duration.ofNanos(now - start + asleep));
  }

  @Override
  public String bootId() {
    return "";
  }
}
