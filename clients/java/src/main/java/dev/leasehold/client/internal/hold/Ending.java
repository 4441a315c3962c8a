package dev.leasehold.client.internal.hold;

import com.google.protobuf.ByteString;
import dev.leasehold.client.Checkpoint;
import dev.leasehold.client.OutcomeNotRecordedException;
import dev.leasehold.client.internal.errors.Refusals;
import dev.leasehold.v1.OutcomeResult;
import dev.leasehold.v1.ReleaseOutcome;
import dev.leasehold.v1.ReleaseResult;
import dev.leasehold.v1.RunOutcome;
import java.util.Optional;

/**
 * What a release carries.
 *
 * @param outcome how the occurrence has ended that was asked for, if it was
 * @param checkpoint the value to save
 */
public record Ending(Optional<RunOutcome> outcome, Optional<ByteString> checkpoint) {
  /** Nothing. */
  public static final Ending PLAIN = new Ending(Optional.empty(), Optional.empty());

  static Ending saving(byte[] checkpoint) {
    return new Ending(Optional.empty(), Optional.of(checked("checkpoint", checkpoint)));
  }

  /** How the occurrence has ended. */
  public static Ending of(RunOutcome outcome) {
    return new Ending(Optional.of(outcome), Optional.empty());
  }

  /** How the occurrence has ended, and a value to save. */
  public static Ending of(RunOutcome outcome, byte[] checkpoint) {
    return new Ending(Optional.of(outcome), Optional.of(checked("checkpoint", checkpoint)));
  }

  /** Fails unless the outcome that the release carried was recorded. */
  public static void checkRecorded(ReleaseResult result) {
    if (result.getOutcomeResult() == OutcomeResult.OUTCOME_RESULT_RECORDED) {
      return;
    }
    // S37: it says what became of an outcome, if it knows of them.
    boolean isIgnored =
        result.getOutcomeResult() == OutcomeResult.OUTCOME_RESULT_UNSPECIFIED
            && result.getOutcome() != ReleaseOutcome.RELEASE_OUTCOME_ALREADY_LOST
            && result.getOutcome() != ReleaseOutcome.RELEASE_OUTCOME_ALREADY_RELEASED;
    if (isIgnored) {
      throw Refusals.unknownCalls("occurrences");
    }
    throw new OutcomeNotRecordedException(result);
  }

  /** A value to be saved; {@code field} is its name in the request. */
  public static ByteString checked(String field, byte[] value) {
    if (value.length > Checkpoint.MAX_BYTES) {
      String problem =
          "has " + value.length + " bytes; at most " + Checkpoint.MAX_BYTES + " are allowed";
      throw Refusals.invalid(field, problem);
    }
    return ByteString.copyFrom(value);
  }
}
