package dev.leasehold.client;

/**
 * The hold was lost before its holder ended it, as a loss or only its release told: two holders may
 * have acted since.
 */
public final class HoldLostException extends LeaseholdException {
  private static final long serialVersionUID = 1L;

  private final transient Loss loss;

  /**
   * For tests of code that uses a client.
   *
   * @param loss why it was lost
   */
  public HoldLostException(Loss loss) {
    this(loss, null);
  }

  HoldLostException(Loss loss, Throwable cause) {
    super("the hold was lost: " + loss, cause);
    this.loss = loss;
  }

  /**
   * Why it was lost.
   *
   * @return why; null only in an exception that was serialized
   */
  public Loss loss() {
    return loss;
  }
}
