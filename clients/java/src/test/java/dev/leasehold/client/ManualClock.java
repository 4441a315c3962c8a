package dev.leasehold.client;

import dev.leasehold.client.internal.clock.BootClock;
import java.time.Duration;
import java.util.function.LongSupplier;

/**
 * Goes with a test's time, and when it is moved. Its kernel is {@link #OURS}, and it starts at
 * 1,000 s.
 */
final class ManualClock implements BootClock {
  static final String OURS = "kernel-a";
  static final String ELSEWHERE = "kernel-b";

  private final LongSupplier nanos;
  private volatile Duration moved = Duration.ZERO;

  ManualClock(LongSupplier nanos) {
    this.nanos = nanos;
  }

  static BootInstant at(long seconds) {
    return new BootInstant(Duration.ofSeconds(seconds));
  }

  void move(Duration span) {
    moved = moved.plus(span);
  }

  /** How far it was moved. */
  Duration moved() {
    return moved;
  }

  @Override
  public BootInstant latest() {
    return at(1_000).plus(moved).plus(Duration.ofNanos(nanos.getAsLong()));
  }

  @Override
  public BootInstant earliest() {
    return latest();
  }

  @Override
  public String bootId() {
    return OURS;
  }
}
