package dev.leasehold.client;

import com.google.protobuf.Timestamp;
import dev.leasehold.v1.AlreadyDone;
import dev.leasehold.v1.EndedRun;
import dev.leasehold.v1.Skipped;
import java.time.Instant;
import java.util.Optional;

/**
 * The occurrence that was asked for ({@link LeaseSpec#occurrence}) is not granted any more: an
 * answer of the sidecar, and no fault.
 */
public final class OccurrenceOverException extends LeaseholdException {
  private static final long serialVersionUID = 1L;

  /** How it ended; null if it was skipped. */
  private final EndedRun run;

  /** The newest one that has an outcome; null if it was not said. */
  private final Instant watermark;

  private OccurrenceOverException(String message, EndedRun run, Instant watermark) {
    super(message);
    this.run = run;
    this.watermark = watermark;
  }

  /**
   * For tests of code that uses a client.
   *
   * @param done the answer that it has a final outcome
   * @return the exception
   */
  public static OccurrenceOverException of(AlreadyDone done) {
    EndedRun run = done.getRun();
    String outcome = run.getOutcome().name().substring("RUN_OUTCOME_".length());
    return new OccurrenceOverException(
        "the occurrence is done: " + outcome, run, instant(run.getScheduledAt()));
  }

  /**
   * For tests of code that uses a client.
   *
   * @param skipped the answer that a newer one has an outcome
   * @return the exception
   */
  public static OccurrenceOverException of(Skipped skipped) {
    Instant watermark = skipped.hasWatermark() ? instant(skipped.getWatermark()) : null;
    return new OccurrenceOverException(
        "the occurrence is skipped: a newer one is done"
            + (watermark == null ? "" : ", " + watermark),
        null,
        watermark);
  }

  private static Instant instant(Timestamp wire) {
    return Instant.ofEpochSecond(wire.getSeconds(), wire.getNanos());
  }

  /**
   * How the occurrence has ended.
   *
   * @return the run, of which an old record may have the outcome only; empty if the occurrence is
   *     older than one that has an outcome, and none was recorded for it
   */
  public Optional<EndedRun> run() {
    return Optional.ofNullable(run);
  }

  /**
   * The newest occurrence that is known to have an outcome.
   *
   * @return the instant, if it was said
   */
  public Optional<Instant> watermark() {
    return Optional.ofNullable(watermark);
  }
}
