package dev.leasehold.client.internal.hold;

import dev.leasehold.client.HoldBody;
import dev.leasehold.client.LostException;
import dev.leasehold.client.RefusedException;
import dev.leasehold.client.internal.connect.Pacing;
import dev.leasehold.client.internal.errors.Refusals;
import java.util.Optional;

/** Takes a lock, runs under it, and takes it again when it was lost. */
public final class Leader {
  /** How a term is taken. */
  @FunctionalInterface
  public interface Taking {
    /** Waits for the lock. */
    StreamHold take() throws InterruptedException;
  }

  private final Taking taking;
  private final Pacing pacing;

  /** Takes each term by {@code taking}, and pauses by {@code pacing}. */
  public Leader(Taking taking, Pacing pacing) {
    this.taking = taking;
    this.pacing = pacing;
  }

  /** What {@code body} returns in the term that was neither lost nor revoked. */
  public <T, E extends Exception> T lead(HoldBody<T, E> body) throws E, InterruptedException {
    while (true) {
      Optional<StreamHold> term = take();
      if (term.isPresent()) {
        pacing.worked();
        Outcome<T> outcome = run(term.get(), body);
        if (!outcome.dropped) {
          return outcome.result;
        }
      }
      pacing.rest(term.isEmpty());
    }
  }

  /** How a term has ended. One that was ended from outside is followed by another. */
  private record Outcome<T>(boolean dropped, T result) {}

  /** A term; empty if there was none for a cause that may pass. */
  private Optional<StreamHold> take() throws InterruptedException {
    try {
      return Optional.of(taking.take());
    } catch (RefusedException refusal) {
      if (!Refusals.mayPass(refusal)) {
        throw refusal;
      }
    } catch (LostException lostUnused) {
      // Granted too late to be used: as good as none.
    }
    return Optional.empty();
  }

  private static <T, E extends Exception> Outcome<T> run(StreamHold term, HoldBody<T, E> body)
      throws E, InterruptedException {
    try {
      T result = term.run(body);
      return new Outcome<>(term.notice().isPresent(), result);
    } catch (LostException lost) {
      // The body may have met the loss of another hold.
      if (!term.isLostBy(lost)) {
        throw lost;
      }
      return new Outcome<>(true, null);
    }
  }
}
