package dev.leasehold.client;

import static dev.leasehold.client.FakeSidecar.RUN;
import static dev.leasehold.client.FakeSidecar.STANDBY;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.v1.LossReason;
import dev.leasehold.v1.RunKind;
import dev.leasehold.v1.SubscribeScheduleRequest;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;

/** What Java's users have of a subscription; what becomes of its runs, the vectors say. */
class RunsTest extends BenchTest {
  private static final ScheduleSpec NIGHTLY =
      ScheduleSpec.of("nightly").cron("30 2 * * *").timeZone("Europe/Copenhagen").holder("me");

  private final Runs runs = client.runs(NIGHTLY);
  private final CompletableFuture<Thread> asking = new CompletableFuture<>();

  private Future<Run> next(Runs runs) {
    return threads.submit(
        () -> {
          asking.complete(Thread.currentThread());
          return runs.next();
        });
  }

  private FakeCall standBy() throws InterruptedException {
    FakeCall call = sidecar.subscription();
    call.tell(STANDBY);
    return call;
  }

  @Test
  void aRunTellsWhatItIsOfAndItsFirstOutcomeIsRecorded() throws Exception {
    Future<Run> asked = next(runs);
    FakeCall call = standBy();
    call.tell(
        "run: {until: 58000, for: 58000, kind: SCHEDULED, attempt: 2, max_attempts: 3,"
            + " missed_count: 7, lateness: 5000, next_at: 3600, deadline_at: 2400,"
            + " local_time: '1970-01-01T01:30:00+01:00[Europe/Copenhagen]'}");
    Run run = soon(asked);
    assertEquals(NIGHTLY.toMessage().toBuilder().setNeeds(1).build(), call.request);
    assertEquals(Instant.ofEpochSecond(1_800), run.scheduledAt());
    assertEquals(Optional.of(Instant.ofEpochSecond(3_600)), run.nextAt());
    assertEquals(Optional.of(Instant.ofEpochSecond(2_400)), run.deadlineAt());
    assertEquals(Optional.empty(), run.deadline());
    assertEquals(Duration.ofSeconds(5), run.lateness());
    assertEquals(RunKind.RUN_KIND_SCHEDULED, run.kind());
    assertEquals(
        List.of(2, 3, 7), List.of(run.attempt(), run.maxAttempts(), (int) run.missedCount()));
    assertEquals(65_536, run.fencingToken());
    assertEquals("run-1", run.runId());
    assertFalse(run.toString().contains("run-1") || run.toString().contains("lease-1"), "S20");
    assertEquals("Europe/Copenhagen", runs.understood().orElseThrow().getTimeZone());
    call.tell("draining: {left: 1000}");
    Bench.eventually("T20: it is to finish", run::shouldFinish);
    assertTrue(run.isValid());
    run.complete(Completion.succeeded().withCheckpoint("page 7"));
    run.complete(Completion.failed("again: the first one counts"));
    assertAsked("complete_run 1 SUCCEEDED page 7");
    call.tell("recorded: {}");
    call.tell(RUN);
    run = soon(next(runs));
    assertFalse(run.shouldFinish());
    call.tell("revoked: {until: 58000, for: 58000, by: ann}");
    Bench.eventually("S22: it is to finish", run::shouldFinish);
    run.close();
    assertAsked("complete_run 1 SUCCEEDED page 7", "complete_run 1 RETURNED");
    runs.close();
    assertThrows(RefusedException.class, runs::next);
  }

  @Test
  void s13ARunThatIsOverHereOnlyEndsItsStream() throws Exception {
    Future<Run> asked = next(runs);
    FakeCall call = standBy();
    call.tell(RUN);
    Run run = soon(asked);
    bench.clock.advance(58);
    assertEquals(LossReason.LOSS_REASON_EXPIRED, soon(run.lost()).reason());
    call.awaitEnd();
  }

  @Test
  void anInterruptEndsTheWaitAndNothingIsMissed() throws Exception {
    Future<Run> asked = next(runs);
    FakeCall call = standBy();
    soon(asking).interrupt();
    failure(InterruptedException.class, asked);
    call.tell(RUN);
    assertTrue(soon(next(runs)).isValid());
    assertFalse(sidecar.hasUnseenCalls());
  }

  @Test
  void s14WhoHearsNothingSubscribesAgainAndResumesARunBeforeItsStreamIsEnded() throws Exception {
    try (Bench impatient = Bench.impatient();
        Runs silently = impatient.client.runs(NIGHTLY)) {
      FakeSidecar other = impatient.sidecar;
      Future<Run> asked = next(silently);
      FakeCall silent = other.subscription();
      silent.tell(STANDBY);
      silent.awaitEnd();
      // On a busy machine the first word may come too late, again.
      while (!asked.isDone()) {
        silent = other.subscription();
        silent.tell(RUN);
        Bench.eventually("it subscribes", () -> asked.isDone() || other.hasUnseenCalls());
      }
      FakeCall call = other.subscription();
      SubscribeScheduleRequest request = (SubscribeScheduleRequest) call.request;
      assertEquals("run-1", request.getRunId());
      assertEquals(NIGHTLY.toSpec(), request.getSpec());
      assertTrue(silent.isOpen());
      call.tell("run: {until: 58000, for: 58000, generation: 2}");
      silent.awaitEnd();
      assertTrue(soon(asked).isValid());
    }
  }
}
