package dev.leasehold.samples;

import dev.leasehold.client.Hold;
import dev.leasehold.client.LeaseSpec;
import dev.leasehold.client.LeaseholdClient;
import java.util.concurrent.CountDownLatch;

/** Leads for as long as it can, term after term, until Ctrl-C: {@code leader FUNCTION}. */
public final class Lead {
  private Lead() {}

  /**
   * Runs the sample.
   *
   * @param arguments the function
   * @throws InterruptedException never: Ctrl-C ends the process
   */
  public static void main(String[] arguments) throws InterruptedException {
    if (arguments.length != 1) {
      System.err.println("usage: leader FUNCTION");
      System.exit(64);
    }
    try (LeaseholdClient client = LeaseholdClient.fromEnvironment()) {
      client.lead(LeaseSpec.of(arguments[0]), Lead::term);
    }
  }

  private static Void term(Hold term) throws InterruptedException {
    System.out.println("leading, token " + term.fencingToken());
    try {
      // Here a leader does its work, until the loss of the lock interrupts it.
      new CountDownLatch(1).await();
      return null;
    } finally {
      System.out.println("not leading any more");
    }
  }
}
