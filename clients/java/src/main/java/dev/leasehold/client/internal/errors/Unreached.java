package dev.leasehold.client.internal.errors;

/** Why a call came to nothing: there was no connection to the sidecar. */
public final class Unreached extends Exception {
  private static final long serialVersionUID = 1L;

  private final String endpoint;

  /** {@code cause} is what the connection failed with; null if that is not known. */
  public Unreached(String endpoint, Throwable cause) {
    super(cause == null ? "no connection" : cause.getMessage(), cause);
    this.endpoint = endpoint;
  }

  /** Where the sidecar was looked for. */
  public String endpoint() {
    return endpoint;
  }
}
