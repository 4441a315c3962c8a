package dev.leasehold.client;

/** The sidecar answered what no sidecar of this API may, so it is a newer or a broken one. */
public final class ProtocolException extends LeaseholdException {
  private static final long serialVersionUID = 1L;

  /**
   * For tests of code that uses a client.
   *
   * @param problem what is wrong
   */
  public ProtocolException(String problem) {
    super("the sidecar's answer is invalid: " + problem);
  }
}
