package dev.leasehold.samples;

import dev.leasehold.client.Checkpoint;
import dev.leasehold.client.Hold;
import dev.leasehold.client.LeaseSpec;
import dev.leasehold.client.LeaseholdClient;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Counts, and goes on from where the last holder stopped: {@code checkpoint FUNCTION [TIMES]}. When
 * the lock is broken, it is told, saves and releases.
 */
public final class Count {
  private Count() {}

  /**
   * Runs the sample.
   *
   * @param arguments the function; how often to count, without end by default
   * @throws Exception when the lock is lost, or the sidecar cannot be reached
   */
  public static void main(String[] arguments) throws Exception {
    if (arguments.length < 1 || arguments.length > 2) {
      System.err.println("usage: checkpoint FUNCTION [TIMES]");
      System.exit(64);
    }
    long times = arguments.length > 1 ? Long.parseLong(arguments[1]) : Long.MAX_VALUE;
    LeaseSpec spec = LeaseSpec.of(arguments[0]).waitWithoutEnd();
    try (LeaseholdClient client = LeaseholdClient.fromEnvironment();
        Hold hold = client.hold(spec)) {
      count(hold, times);
    }
  }

  private static void count(Hold hold, long times) throws Exception {
    long count = hold.checkpoint().map(Checkpoint::text).map(Long::parseLong).orElse(0L);
    for (long done = 0; done < times && hold.notice().isEmpty(); done++) {
      count++;
      System.out.println("count " + count + ", version " + hold.save(Long.toString(count)));
      pause(hold);
    }
    hold.notice().ifPresent(notice -> System.out.println("told to stop: " + notice.reason()));
    System.out.println(hold.release(Long.toString(count)).getOutcome());
  }

  /** A second, or less if the lock is broken meanwhile. */
  private static void pause(Hold hold) throws Exception {
    try {
      hold.revoked().get(1, TimeUnit.SECONDS);
    } catch (TimeoutException notBroken) {
      // As it should be.
    }
  }
}
