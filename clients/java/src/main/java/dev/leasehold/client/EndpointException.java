package dev.leasehold.client;

/** The endpoint, or an option that goes with it, is invalid. Trying again does not help. */
public final class EndpointException extends LeaseholdException {
  private static final long serialVersionUID = 1L;

  /**
   * For tests of code that uses a client.
   *
   * @param endpoint where the sidecar was looked for
   * @param problem what is wrong
   */
  public EndpointException(String endpoint, String problem) {
    this(endpoint, problem, null);
  }

  /**
   * For tests of code that uses a client.
   *
   * @param endpoint where the sidecar was looked for
   * @param problem what is wrong
   * @param cause what was thrown because of it
   */
  public EndpointException(String endpoint, String problem, Throwable cause) {
    super("the endpoint \"" + endpoint + "\" cannot be used: " + problem, cause);
  }
}
