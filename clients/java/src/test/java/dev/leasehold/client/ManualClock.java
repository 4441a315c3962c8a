package dev.leasehold.client;

import dev.leasehold.client.internal.clock.BootClock;
import java.time.Duration;

/** Stands still until it is moved. Its kernel is {@link #OURS}, and it starts at 1,000 s. */
final class ManualClock implements BootClock {
  static final String OURS = "kernel-a";
  static final String ELSEWHERE = "kernel-b";

  private BootInstant now = at(1_000);

  static BootInstant at(long seconds) {
    return new BootInstant(Duration.ofSeconds(seconds));
  }

  synchronized void advance(long seconds) {
    now = now.plus(Duration.ofSeconds(seconds));
  }

  @Override
  public synchronized BootInstant latest() {
    return now;
  }

  @Override
  public synchronized BootInstant earliest() {
    return now;
  }

  @Override
  public String bootId() {
    return OURS;
  }
}
