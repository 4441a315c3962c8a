package dev.leasehold.client;

import io.grpc.Status;
import java.time.Duration;
import java.util.EnumSet;
import java.util.Optional;
import java.util.Set;
import java.util.function.DoubleSupplier;

/** Takes a lock, runs under it, and takes it again when it was lost. */
final class Leader {
  private static final Duration SHORTEST_PAUSE = Duration.ofMillis(100);

  /** The bound of the pause after a term; doubled after each failure, up to the longest. */
  private static final Duration FIRST_BOUND = Duration.ofSeconds(1);

  private static final Duration LONGEST_PAUSE = Duration.ofSeconds(10);

  /** Codes of refusals that may pass, beside breaks of the connection. */
  private static final Set<Status.Code> PASSING =
      EnumSet.of(
          Status.Code.UNAVAILABLE,
          Status.Code.RESOURCE_EXHAUSTED,
          Status.Code.ABORTED,
          Status.Code.DEADLINE_EXCEEDED);

  /** How a term is taken. */
  @FunctionalInterface
  interface Taking {
    /** Waits for the lock. */
    StreamHold take() throws InterruptedException;
  }

  /** How to pause between two terms. */
  @FunctionalInterface
  interface Pause {
    /** Waits for so long; fails when the client is closed. */
    void rest(Duration duration) throws InterruptedException;
  }

  private final Taking taking;
  private final Pause pause;
  private final DoubleSupplier jitter;
  private Duration bound = FIRST_BOUND;

  /** {@code jitter} gives numbers from 0 to 1. */
  Leader(Taking taking, Pause pause, DoubleSupplier jitter) {
    this.taking = taking;
    this.pause = pause;
    this.jitter = jitter;
  }

  /** What {@code body} returns in the term that was not lost. */
  <T, E extends Exception> T lead(HoldBody<T, E> body) throws E, InterruptedException {
    while (true) {
      Optional<StreamHold> term = take();
      if (term.isPresent()) {
        bound = FIRST_BOUND;
        Outcome<T> outcome = run(term.get(), body);
        if (!outcome.lost) {
          return outcome.result;
        }
      }
      pause.rest(nextPause());
      if (term.isEmpty()) {
        bound = Durations.shorter(bound.multipliedBy(2), LONGEST_PAUSE);
      }
    }
  }

  /** How a term has ended. */
  private record Outcome<T>(boolean lost, T result) {}

  /** A term; empty if there was none for a cause that may pass. */
  private Optional<StreamHold> take() throws InterruptedException {
    try {
      return Optional.of(taking.take());
    } catch (RefusedException refusal) {
      if (!refusal.isBreak() && !PASSING.contains(refusal.code())) {
        throw refusal;
      }
    } catch (HoldLostException lostUnused) {
      // Granted too late to be used: as good as none.
    }
    return Optional.empty();
  }

  private static <T, E extends Exception> Outcome<T> run(StreamHold term, HoldBody<T, E> body)
      throws E, InterruptedException {
    try {
      return new Outcome<>(false, term.run(body));
    } catch (HoldLostException lost) {
      // The body may have met the loss of another hold.
      if (!term.isLostBy(lost)) {
        throw lost;
      }
      return new Outcome<>(true, null);
    }
  }

  private Duration nextPause() {
    double share = jitter.getAsDouble();
    long beyond = Math.round(bound.minus(SHORTEST_PAUSE).toNanos() * share);
    return SHORTEST_PAUSE.plusNanos(beyond);
  }
}
