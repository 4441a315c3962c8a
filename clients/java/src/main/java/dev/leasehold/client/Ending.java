package dev.leasehold.client;

import com.google.protobuf.ByteString;
import dev.leasehold.v1.RunOutcome;
import java.util.Optional;

/**
 * What a release carries.
 *
 * @param outcome how the occurrence has ended that was asked for, if it was
 * @param checkpoint the value to save
 */
record Ending(Optional<RunOutcome> outcome, Optional<ByteString> checkpoint) {
  /** Nothing. */
  static final Ending PLAIN = new Ending(Optional.empty(), Optional.empty());

  static Ending saving(byte[] checkpoint) {
    return new Ending(Optional.empty(), Optional.of(Checkpoint.checked("checkpoint", checkpoint)));
  }

  static Ending of(RunOutcome outcome) {
    return new Ending(Optional.of(outcome), Optional.empty());
  }

  static Ending of(RunOutcome outcome, byte[] checkpoint) {
    return new Ending(
        Optional.of(outcome), Optional.of(Checkpoint.checked("checkpoint", checkpoint)));
  }
}
