package dev.leasehold.client;

/**
 * It is not known whether the lock was released: no sidecar has confirmed it in time. The lock is
 * available when its lease runs out, at the latest (S13, S16).
 */
public final class ReleaseUnconfirmedException extends LeaseholdException {
  private static final long serialVersionUID = 1L;

  /**
   * For tests of code that uses a client.
   *
   * @param lockPath the path of the lock
   * @param why why nobody has confirmed it
   * @param cause what was thrown because of it; null for nothing
   */
  public ReleaseUnconfirmedException(String lockPath, String why, Throwable cause) {
    super(
        "the release of the lock "
            + lockPath
            + " was not confirmed, and it becomes available when its lease expires, if not before: "
            + why,
        cause);
  }
}
