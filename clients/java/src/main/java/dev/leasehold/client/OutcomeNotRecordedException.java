package dev.leasehold.client;

import dev.leasehold.v1.OutcomeResult;
import dev.leasehold.v1.ReleaseResult;

/**
 * The lock was released, and the outcome of its occurrence was not recorded, or that is not known:
 * ask for the occurrence again. Then it is granted once more, or it is said that it is done.
 */
public final class OutcomeNotRecordedException extends LeaseholdException {
  private static final long serialVersionUID = 1L;

  /** What the release did. */
  private final ReleaseResult result;

  /**
   * For tests of code that uses a client.
   *
   * @param result what the release did
   */
  public OutcomeNotRecordedException(ReleaseResult result) {
    super(
        "the lock was released, and "
            + (result.getOutcomeResult() == OutcomeResult.OUTCOME_RESULT_NOT_RECORDED
                ? "the outcome of its occurrence was not recorded"
                : "it is not known whether the outcome of its occurrence was recorded")
            + "; ask for the occurrence again");
    this.result = result;
  }

  /**
   * What the release did, with what became of the outcome and of a checkpoint.
   *
   * @return the result
   */
  public ReleaseResult result() {
    return result;
  }
}
