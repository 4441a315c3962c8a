package dev.leasehold.client;

import dev.leasehold.v1.CheckpointOutcome;

/**
 * The hold was lost before its holder ended it, as a loss or only its release told: two holders may
 * have acted since.
 */
public final class LostException extends LeaseholdException {
  private static final long serialVersionUID = 1L;

  private final transient Loss loss;

  /** What became of the checkpoint that the release carried. */
  private final CheckpointOutcome checkpoint;

  /**
   * For tests of code that uses a client.
   *
   * @param loss why it was lost
   */
  public LostException(Loss loss) {
    this(loss, null);
  }

  /**
   * For tests of code that uses a client.
   *
   * @param loss why it was lost
   * @param cause what was thrown because of it
   */
  public LostException(Loss loss, Throwable cause) {
    this(loss, cause, CheckpointOutcome.CHECKPOINT_OUTCOME_UNSPECIFIED);
  }

  /**
   * A loss that a release found (S26); for tests of code that uses a client.
   *
   * @param loss why it was lost
   * @param cause what was thrown because of it; null for nothing
   * @param checkpoint what became of the checkpoint that the release carried
   */
  public LostException(Loss loss, Throwable cause, CheckpointOutcome checkpoint) {
    super("the lock was lost: " + loss, cause);
    this.loss = loss;
    this.checkpoint = checkpoint;
  }

  /**
   * Why it was lost.
   *
   * @return why; null only in an exception that was serialized
   */
  public Loss loss() {
    return loss;
  }

  /**
   * What became of the checkpoint that the release carried.
   *
   * @return UNSPECIFIED if it carried none, or was not sent
   */
  public CheckpointOutcome checkpointOutcome() {
    return checkpoint;
  }
}
