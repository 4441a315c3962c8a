package dev.leasehold.client;

/**
 * Why a call came to nothing. Decide by the class, and by code and reason, never by the message.
 */
public abstract sealed class LeaseholdException extends RuntimeException
    permits CheckpointUnknownException,
        EndpointException,
        LostException,
        BusyException,
        ReleaseUnconfirmedException,
        OccurrenceOverException,
        OutcomeNotRecordedException,
        ProtocolException,
        RefusedException {
  private static final long serialVersionUID = 1L;

  LeaseholdException(String message, Throwable cause) {
    super(message, cause);
  }

  LeaseholdException(String message) {
    super(message);
  }
}
