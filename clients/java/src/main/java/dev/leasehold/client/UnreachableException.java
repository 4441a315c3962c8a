package dev.leasehold.client;

/** No sidecar answers at the endpoint, or it refuses the connection. */
public final class UnreachableException extends RefusedException {
  private static final long serialVersionUID = 1L;

  UnreachableException(String endpoint, Throwable cause, String why) {
    super(
        cause,
        "no sidecar answers at "
            + endpoint
            + " ("
            + why
            + "); start one with `leasehold serve`, or say where it is with LEASEHOLD_ENDPOINT");
  }
}
