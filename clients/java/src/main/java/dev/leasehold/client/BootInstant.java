package dev.leasehold.client;

import java.time.Duration;

/**
 * A moment on this machine's boot clock, which goes on counting while the machine sleeps: readings
 * of it compare, whatever the wall clock does.
 *
 * @param sinceBoot the time from boot to this moment
 */
public record BootInstant(Duration sinceBoot) implements Comparable<BootInstant> {
  /** The machine's boot. */
  static final BootInstant BOOT = new BootInstant(Duration.ZERO);

  @Override
  public int compareTo(BootInstant other) {
    return sinceBoot.compareTo(other.sinceBoot);
  }

  BootInstant plus(Duration duration) {
    return new BootInstant(Durations.sum(sinceBoot, duration));
  }

  /** The moment {@code duration} before this one; boot, if that is before boot. */
  BootInstant minus(Duration duration) {
    return new BootInstant(Durations.atLeastZero(sinceBoot.minus(duration)));
  }

  /** The time from {@code earlier} to this moment; zero if {@code earlier} is later. */
  Duration since(BootInstant earlier) {
    return Durations.atLeastZero(sinceBoot.minus(earlier.sinceBoot));
  }

  boolean isBefore(BootInstant other) {
    return compareTo(other) < 0;
  }
}
