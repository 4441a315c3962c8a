package dev.leasehold.samples;

import dev.leasehold.client.BusyException;
import dev.leasehold.client.Checkpoint;
import dev.leasehold.client.Hold;
import dev.leasehold.client.HoldEvent;
import dev.leasehold.client.LeaseSpec;
import dev.leasehold.client.LeaseholdClient;
import dev.leasehold.client.ScheduleSpec;
import java.time.Duration;
import java.time.Instant;

/** What the README shows. */
public final class NightlyReport {
  private NightlyReport() {}

  /**
   * Runs the sample.
   *
   * @param arguments none
   * @throws InterruptedException when the lock is lost
   */
  public static void main(String[] arguments) throws InterruptedException {
    LeaseSpec spec = LeaseSpec.of("nightly-report").waitUpTo(Duration.ofSeconds(30));
    try (LeaseholdClient client = LeaseholdClient.fromEnvironment();
        Hold hold = client.hold(spec)) {
      writeReport(hold.fencingToken());
    } catch (BusyException busy) {
      System.out.println(busy.getMessage());
    }
  }

  /**
   * The same by a callback.
   *
   * @param client the client
   * @return how many lines were written
   * @throws InterruptedException when the thread is interrupted, other than for the loss
   */
  public static int byCallback(LeaseholdClient client) throws InterruptedException {
    LeaseSpec spec = LeaseSpec.of("nightly-report").waitWithoutEnd();
    return client.withHold(spec, hold -> writeReport(hold.fencingToken()));
  }

  /**
   * The same, with an ear for what happens.
   *
   * @param client the client
   * @throws InterruptedException when the lock is lost
   */
  public static void listening(LeaseholdClient client) throws InterruptedException {
    LeaseSpec spec = LeaseSpec.of("nightly-report").progressTimeout(Duration.ofMinutes(5));
    try (Hold hold = client.hold(spec, NightlyReport::hear)) {
      for (int part = 0; part < 10 && hold.isValid(); part++) {
        writeReport(hold.fencingToken());
        hold.reportProgress();
      }
    }
  }

  /**
   * Goes on from the checkpoint of the last holder, and stops at a notice.
   *
   * @param client the client
   * @throws InterruptedException when the lock is lost
   */
  public static void continuing(LeaseholdClient client) throws InterruptedException {
    LeaseSpec spec = LeaseSpec.of("nightly-report").waitWithoutEnd();
    try (Hold hold = client.hold(spec)) {
      int part = hold.checkpoint().map(Checkpoint::text).map(Integer::parseInt).orElse(0);
      while (part < 10 && hold.notice().isEmpty()) {
        writeReport(hold.fencingToken());
        part++;
        hold.save(Integer.toString(part));
      }
    }
  }

  /**
   * Runs for as long as this process leads.
   *
   * @param client the client
   * @throws InterruptedException when the thread is interrupted, other than for a loss
   */
  public static void leading(LeaseholdClient client) throws InterruptedException {
    client.lead(LeaseSpec.of("scheduler"), term -> schedule(term.fencingToken()));
  }

  /**
   * Runs each night, in whichever replica.
   *
   * @param client the client
   * @throws InterruptedException when the thread is interrupted, other than for a loss
   */
  public static void everyNight(LeaseholdClient client) throws InterruptedException {
    ScheduleSpec nightly =
        ScheduleSpec.of("nightly").cron("30 2 * * *").timeZone("Europe/Copenhagen");
    client.every(nightly, run -> writeReportOf(run.scheduledAt()));
  }

  private static void writeReportOf(Instant night) {
    System.out.println("the report of " + night);
  }

  private static int schedule(long fencingToken) throws InterruptedException {
    return writeReport(fencingToken);
  }

  private static void hear(HoldEvent event) {
    if (event instanceof HoldEvent.AtRisk atRisk) {
      System.err.println("renewals fail: " + atRisk.detail());
    }
  }

  private static int writeReport(long fencingToken) throws InterruptedException {
    System.out.println("written under token " + fencingToken);
    return 1;
  }
}
