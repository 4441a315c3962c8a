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

  BootInstant plus(Duration span) {
    return new BootInstant(Spans.sum(sinceBoot, span));
  }

  /** The moment {@code span} before this one; boot, if that is before boot. */
  BootInstant minus(Duration span) {
    return new BootInstant(Spans.atLeastZero(sinceBoot.minus(span)));
  }

  /** The time from {@code earlier} to this moment; zero if {@code earlier} is later. */
  Duration since(BootInstant earlier) {
    return Spans.atLeastZero(sinceBoot.minus(earlier.sinceBoot));
  }

  boolean isBefore(BootInstant other) {
    return compareTo(other) < 0;
  }
}
