package dev.leasehold.client;

/**
 * It is not known whether a save has reached the store: the earlier checkpoint stands, or the new
 * one (S27). While the hold is valid, save again; the next holder sees which it is.
 */
public final class CheckpointUnknownException extends LeaseholdException {
  private static final long serialVersionUID = 1L;

  /**
   * For tests of code that uses a client.
   *
   * @param cause what was thrown because of it
   */
  public CheckpointUnknownException(Throwable cause) {
    super(
        "it is not known whether the checkpoint was saved; the next grant tells: "
            + cause.getMessage(),
        cause);
  }
}
