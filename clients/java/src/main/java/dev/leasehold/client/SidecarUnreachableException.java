package dev.leasehold.client;

/** No sidecar answers at the endpoint. */
public final class SidecarUnreachableException extends LeaseholdException {
  private static final long serialVersionUID = 1L;

  SidecarUnreachableException(String endpoint, Throwable cause) {
    super(
        "no sidecar answers at "
            + endpoint
            + " ("
            + cause.getMessage()
            + "); start one with `leasehold serve`, or say where it is with LEASEHOLD_ENDPOINT",
        cause);
  }
}
