package dev.leasehold.client;

/**
 * It is not known whether a save has reached the store: the earlier checkpoint stands, or the new
 * one (S27). While the hold is valid, save again; the next holder sees which it is.
 */
public final class CheckpointUnknownException extends LeaseholdException {
  private static final long serialVersionUID = 1L;

  CheckpointUnknownException(String lockPath, RefusedException cause) {
    super(
        "it is not known whether the checkpoint of the lock "
            + lockPath
            + " was saved: "
            + cause.getMessage()
            + "; save it again while the hold is valid",
        cause);
  }
}
