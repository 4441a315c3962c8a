package dev.leasehold.client;

/**
 * The lock was not released: the connection had broken, and no sidecar has answered yet that the
 * hold goes on there. It is available when its lease runs out (S16).
 */
public final class NotReleasedException extends LeaseholdException {
  private static final long serialVersionUID = 1L;

  NotReleasedException(String lockPath) {
    super(
        "the lock "
            + lockPath
            + " was not released: the hold was being resumed, and no sidecar has answered yet; it"
            + " is available when its lease runs out");
  }
}
