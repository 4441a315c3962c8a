package dev.leasehold.samples;

import dev.leasehold.client.BusyException;
import dev.leasehold.client.Hold;
import dev.leasehold.client.HoldListener;
import dev.leasehold.client.LeaseSpec;
import dev.leasehold.client.LeaseholdClient;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;

/** Holds a lock until Ctrl-C, and says what happens to it: {@code hold FUNCTION [SCOPE]}. */
public final class HoldLock {
  private HoldLock() {}

  /**
   * Runs the sample.
   *
   * @param arguments the function, and the scope if there is one
   * @throws InterruptedException when the lock is lost
   */
  public static void main(String[] arguments) throws InterruptedException {
    if (arguments.length < 1 || arguments.length > 2) {
      System.err.println("usage: hold FUNCTION [SCOPE]");
      System.exit(64);
    }
    String scope = arguments.length > 1 ? arguments[1] : "";
    LeaseSpec spec = LeaseSpec.of(arguments[0], scope).waitUpTo(Duration.ofSeconds(60));
    HoldListener listener = System.out::println;
    try (LeaseholdClient client = LeaseholdClient.fromEnvironment();
        Hold hold = client.hold(spec, listener)) {
      // Ctrl-C ends this process by way of its shutdown hooks.
      Runtime.getRuntime()
          .addShutdownHook(new Thread(() -> System.out.println(hold.release().getOutcome())));
      System.out.println(hold.lockPath() + " is ours, token " + hold.fencingToken());
      new CountDownLatch(1).await();
    } catch (BusyException busy) {
      System.out.println(busy.getMessage());
    }
  }
}
