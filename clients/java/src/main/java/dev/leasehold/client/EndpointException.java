package dev.leasehold.client;

/** The endpoint, or an option that goes with it, is invalid. Trying again does not help. */
public final class EndpointException extends LeaseholdException {
  private static final long serialVersionUID = 1L;

  EndpointException(String endpoint, String problem) {
    this(endpoint, problem, null);
  }

  EndpointException(String endpoint, String problem, Throwable cause) {
    super("the endpoint \"" + endpoint + "\" cannot be used: " + problem, cause);
  }
}
