package dev.leasehold.client;

import dev.leasehold.client.internal.clock.Durations;
import java.time.Duration;

/**
 * A moment on this machine's boot clock, which goes on counting while the machine sleeps: readings
 * of it compare, whatever the wall clock does.
 *
 * @param sinceBoot the time from boot to this moment
 */
public record BootInstant(Duration sinceBoot) implements Comparable<BootInstant> {
  /** The machine's boot. */
  public static final BootInstant BOOT = new BootInstant(Duration.ZERO);

  @Override
  public int compareTo(BootInstant other) {
    return sinceBoot.compareTo(other.sinceBoot);
  }

  /**
   * A later moment.
   *
   * @param duration how much later
   * @return the moment
   */
  public BootInstant plus(Duration duration) {
    return new BootInstant(Durations.sum(sinceBoot, duration));
  }

  /**
   * An earlier moment.
   *
   * @param duration how much earlier
   * @return the moment; boot, if that is before boot
   */
  public BootInstant minus(Duration duration) {
    return new BootInstant(Durations.atLeastZero(sinceBoot.minus(duration)));
  }

  /**
   * The time between two moments.
   *
   * @param earlier the earlier one
   * @return the time from it to this moment; zero if it is later
   */
  public Duration since(BootInstant earlier) {
    return Durations.atLeastZero(sinceBoot.minus(earlier.sinceBoot));
  }

  /**
   * Whether this moment comes first.
   *
   * @param other another moment
   * @return false also for the same one
   */
  public boolean isBefore(BootInstant other) {
    return compareTo(other) < 0;
  }
}
