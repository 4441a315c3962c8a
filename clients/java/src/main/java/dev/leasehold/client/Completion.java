package dev.leasehold.client;

import com.google.protobuf.ByteString;
import dev.leasehold.client.internal.hold.Ending;
import dev.leasehold.v1.CompleteRunRequest;
import dev.leasehold.v1.RunOutcome;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Optional;

/** How a run ended, and why: immutable, made by {@link #succeeded} and its like. */
public final class Completion {
  private final RunOutcome outcome;
  private final String detail;
  private final Optional<ByteString> checkpoint;

  private Completion(RunOutcome outcome, String detail, Optional<ByteString> checkpoint) {
    this.outcome = outcome;
    this.detail = detail;
    this.checkpoint = checkpoint;
  }

  private Completion(RunOutcome outcome, String detail) {
    this(outcome, detail, Optional.empty());
  }

  /**
   * The run did its work.
   *
   * @return the completion
   */
  public static Completion succeeded() {
    return new Completion(RunOutcome.RUN_OUTCOME_SUCCEEDED, "");
  }

  /**
   * The run failed, and is tried again if attempts are left.
   *
   * @param detail why, for the sidecar's log; what is longer than 512 bytes is cut. Not for secrets
   * @return the completion
   */
  public static Completion failed(String detail) {
    return new Completion(RunOutcome.RUN_OUTCOME_FAILED, detail);
  }

  /**
   * The run failed, and is not tried again.
   *
   * @param detail why, for the sidecar's log; what is longer than 512 bytes is cut. Not for secrets
   * @return the completion
   */
  public static Completion failedFinal(String detail) {
    return new Completion(RunOutcome.RUN_OUTCOME_FAILED_FINAL, detail);
  }

  /**
   * Another replica is to run it. Does not count as an attempt, at most 10 times.
   *
   * @return the completion
   */
  public static Completion returned() {
    return new Completion(RunOutcome.RUN_OUTCOME_RETURNED, "");
  }

  /**
   * Saves a checkpoint in the same write, if the run's hold goes on.
   *
   * @param value at most 2,048 bytes
   * @return a completion like this one, so changed
   * @throws RefusedException with {@link Reason#INVALID_FIELD} for a value that is too long
   */
  public Completion withCheckpoint(byte[] value) {
    return new Completion(outcome, detail, Optional.of(Ending.checked("checkpoint", value)));
  }

  /**
   * Saves text in UTF-8, as {@link #withCheckpoint(byte[])} does.
   *
   * @param text at most 2,048 bytes in UTF-8
   * @return a completion like this one, so changed
   * @throws RefusedException with {@link Reason#INVALID_FIELD} for a text that is too long
   */
  public Completion withCheckpoint(String text) {
    return withCheckpoint(text.getBytes(StandardCharsets.UTF_8));
  }

  /**
   * The message that is sent of a run, without its hold.
   *
   * @param runId which run
   * @return the message
   */
  public CompleteRunRequest toMessage(String runId) {
    CompleteRunRequest.Builder request =
        CompleteRunRequest.newBuilder()
            .setRunId(runId)
            .setOutcome(outcome)
            .setDetailBytes(ByteString.copyFrom(cut(detail.getBytes(StandardCharsets.UTF_8))));
    checkpoint.ifPresent(request::setCheckpoint);
    return request.build();
  }

  /** Not more than the sidecar takes, and whole characters. */
  private static byte[] cut(byte[] text) {
    if (text.length <= Constants.DETAIL_BYTES) {
      return text;
    }
    int end = Constants.DETAIL_BYTES;
    while ((text[end] & 0xC0) == 0x80) {
      end--;
    }
    return Arrays.copyOf(text, end);
  }

  @Override
  public String toString() {
    return "Completion[" + outcome + (detail.isEmpty() ? "]" : ", " + detail + "]");
  }
}
