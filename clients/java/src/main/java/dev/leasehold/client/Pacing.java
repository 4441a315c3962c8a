package dev.leasehold.client;

import java.time.Duration;
import java.util.function.DoubleSupplier;

/** How long what is done again and again waits between two tries. */
final class Pacing {
  private static final Duration SHORTEST_PAUSE = Duration.ofMillis(100);

  /** The bound of a pause; doubled after each failure, up to the longest. */
  private static final Duration FIRST_BOUND = Duration.ofSeconds(1);

  private static final Duration LONGEST_PAUSE = Duration.ofSeconds(10);

  /** How to pause. */
  @FunctionalInterface
  interface Pause {
    /** Waits for so long; fails when the client is closed. */
    void rest(Duration duration) throws InterruptedException;
  }

  private final Pause pause;
  private final DoubleSupplier jitter;
  private Duration bound = FIRST_BOUND;

  /** {@code jitter} gives numbers from 0 to 1. */
  Pacing(Pause pause, DoubleSupplier jitter) {
    this.pause = pause;
    this.jitter = jitter;
  }

  /** A try has worked. */
  void worked() {
    bound = FIRST_BOUND;
  }

  /** Waits before the next try, and longer the next time if this one has failed. */
  void rest(boolean failed) throws InterruptedException {
    long beyond = Math.round(bound.minus(SHORTEST_PAUSE).toNanos() * jitter.getAsDouble());
    pause.rest(SHORTEST_PAUSE.plusNanos(beyond));
    if (failed) {
      bound = Durations.shorter(bound.multipliedBy(2), LONGEST_PAUSE);
    }
  }
}
