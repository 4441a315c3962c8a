package dev.leasehold.client.internal.connect;

import dev.leasehold.client.Constants;
import dev.leasehold.client.internal.clock.Durations;
import java.time.Duration;
import java.util.function.DoubleSupplier;

/** How long what is done again and again waits between two tries. */
public final class Pacing {
  /** How to pause. */
  @FunctionalInterface
  public interface Pause {
    /** Waits for so long; fails when the client is closed. */
    public void rest(Duration duration) throws InterruptedException;
  }

  private final Pause pause;
  private final DoubleSupplier jitter;
  private Duration bound = Constants.FIRST_TERM_PAUSE;

  /** {@code jitter} gives numbers from 0 to 1. */
  public Pacing(Pause pause, DoubleSupplier jitter) {
    this.pause = pause;
    this.jitter = jitter;
  }

  /** A try has worked. */
  public void worked() {
    bound = Constants.FIRST_TERM_PAUSE;
  }

  /** Waits before the next try, and longer the next time if this one has failed. */
  public void rest(boolean failed) throws InterruptedException {
    long beyond =
        Math.round(bound.minus(Constants.SHORTEST_TERM_PAUSE).toNanos() * jitter.getAsDouble());
    pause.rest(Constants.SHORTEST_TERM_PAUSE.plusNanos(beyond));
    if (failed) {
      bound = Durations.shorter(bound.multipliedBy(2), Constants.LONGEST_TERM_PAUSE);
    }
  }
}
