package dev.leasehold.client.testing;

/** The sidecar of a test did not start, or did not come into the state that was waited for. */
public final class SidecarException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  SidecarException(String message) {
    super(message);
  }

  SidecarException(String message, Throwable cause) {
    super(message, cause);
  }
}
