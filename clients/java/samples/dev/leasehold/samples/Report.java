package dev.leasehold.samples;

import dev.leasehold.client.BusyException;
import dev.leasehold.client.Hold;
import dev.leasehold.client.LeaseSpec;
import dev.leasehold.client.LeaseholdClient;
import java.time.Duration;

/** What docs/moving.md shows: a scheduled method that one replica runs at a time. */
public final class Report {
  private final LeaseholdClient leasehold; // one for the application

  /**
   * A report that only one replica writes.
   *
   * @param leasehold the application's client, from {@link LeaseholdClient#fromEnvironment()}
   */
  public Report(LeaseholdClient leasehold) {
    this.leasehold = leasehold;
  }

  /**
   * Writes the report, unless another replica does.
   *
   * @throws InterruptedException when the lock is lost
   */
  @Scheduled(cron = "0 */15 * * * *")
  public void report() throws InterruptedException {
    LeaseSpec spec = LeaseSpec.of("report").minHold(Duration.ofMinutes(1));
    try (Hold hold = leasehold.hold(spec)) {
      write(hold.fencingToken());
    } catch (BusyException busy) {
      // another replica runs it: skip this round, as ShedLock does
    }
  }

  private static void write(long fencingToken) {
    System.out.println("written under token " + fencingToken);
  }

  /** Stands for Spring's. */
  private @interface Scheduled {
    String cron();
  }
}
