package dev.leasehold.client;

/** Why a call came to nothing: there was no connection to the sidecar. */
final class Unreached extends Exception {
  private static final long serialVersionUID = 1L;

  private final String endpoint;

  Unreached(String endpoint, Throwable cause) {
    super(cause == null ? "no connection" : cause.getMessage(), cause);
    this.endpoint = endpoint;
  }

  /** Where the sidecar was looked for. */
  String endpoint() {
    return endpoint;
  }
}
