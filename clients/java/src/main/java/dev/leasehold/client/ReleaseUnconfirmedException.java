package dev.leasehold.client;

import java.time.Duration;

/**
 * It is not known whether the lock was released: no sidecar has confirmed it in time. The lock is
 * available when its lease runs out, at the latest (S13, S16).
 */
public final class ReleaseUnconfirmedException extends LeaseholdException {
  private static final long serialVersionUID = 1L;

  ReleaseUnconfirmedException(String lockPath, String why, Throwable cause) {
    super(
        "the release of the lock "
            + lockPath
            + " was not confirmed, and it becomes available when its lease expires, if not before: "
            + why,
        cause);
  }

  /** The connection had broken, and no sidecar has answered yet that the hold goes on there. */
  static ReleaseUnconfirmedException resuming(String lockPath) {
    return new ReleaseUnconfirmedException(
        lockPath, "the hold was being resumed, and no sidecar has answered yet", null);
  }

  /** The sidecar did not answer within the client's release timeout. */
  static ReleaseUnconfirmedException unanswered(
      String lockPath, Duration timeout, Throwable cause) {
    return new ReleaseUnconfirmedException(
        lockPath, "the sidecar has not answered within " + timeout.toMillis() + " ms", cause);
  }
}
