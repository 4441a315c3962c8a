package dev.leasehold.client;

import static dev.leasehold.client.FakeSidecar.GONE;
import static dev.leasehold.client.FakeSidecar.RUN;
import static dev.leasehold.client.FakeSidecar.STANDBY;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.internal.connect.Pacing;
import dev.leasehold.client.internal.runs.Every;
import dev.leasehold.client.internal.runs.StreamRuns;
import dev.leasehold.v1.LossReason;
import dev.leasehold.v1.RunKind;
import dev.leasehold.v1.SubscribeScheduleRequest;
import io.grpc.Status;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** What Java's users have of a subscription, and every; what becomes of runs, the vectors say. */
class RunsTest extends Bench {
  private static final ScheduleSpec NIGHTLY =
      ScheduleSpec.of("nightly").cron("30 2 * * *").timeZone("Europe/Copenhagen").holder("me");

  private final List<ScheduleEvent> events = Collections.synchronizedList(new ArrayList<>());
  private final Runs runs = client.runs(NIGHTLY, events::add);
  private final CompletableFuture<Thread> asking = new CompletableFuture<>();

  private Future<Run> next() {
    return threads.submit(
        () -> {
          asking.complete(Thread.currentThread());
          return runs.next();
        });
  }

  private FakeCall standBy() throws InterruptedException {
    FakeCall call = sidecar.next("subscribe");
    call.tell(STANDBY);
    return call;
  }

  @Test
  void aRunTellsWhatItIsOfAndItsFirstOutcomeIsRecorded() throws Exception {
    Future<Run> asked = next();
    sidecar.next("subscribe").end(FakeSidecar.TOO_OLD);
    FakeCall call = standBy();
    assertEquals(new ScheduleEvent.Interrupted("2 and 1"), events.get(0), "S37");
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
    eventually("T20: it is to finish", run::shouldFinish);
    assertTrue(run.isValid());
    run.complete(Completion.succeeded().withCheckpoint("page 7"));
    run.complete(Completion.failed("again: the first one counts"));
    assertAsked("complete_run 1 SUCCEEDED page 7");
    call.tell("recorded: {}");
    call.tell(RUN);
    run = soon(next());
    assertFalse(run.shouldFinish());
    call.tell("revoked: {until: 58000, for: 58000, by: ann}");
    eventually("S22: it is to finish", run::shouldFinish);
    run.close();
    assertAsked("complete_run 1 SUCCEEDED page 7", "complete_run 1 RETURNED");
    runs.close();
    assertThrows(RefusedException.class, runs::next);
  }

  @Test
  void s13ARunThatIsOverHereOnlyEndsItsStream() throws Exception {
    Future<Run> asked = next();
    FakeCall call = standBy();
    call.tell(RUN);
    Run run = soon(asked);
    expire();
    assertEquals(LossReason.LOSS_REASON_EXPIRED, soon(run.lost()).reason());
    call.awaitEnd();
  }

  @Test
  void anInterruptEndsTheWaitAndNothingIsMissed() throws Exception {
    Future<Run> asked = next();
    FakeCall call = standBy();
    soon(asking).interrupt();
    failure(InterruptedException.class, asked);
    call.tell(RUN);
    assertTrue(soon(next()).isValid());
    assertTrue(call.isOpen());
  }

  private static final ScheduleSpec DAILY = ScheduleSpec.of("nightly").cron("@daily");

  private final List<Long> pauses = Collections.synchronizedList(new ArrayList<>());

  /** Runs it without real pauses. */
  private Future<?> every(Bench bench, RunBody body) {
    Pacing pacing = new Pacing(pause -> pauses.add(pause.toMillis()), () -> 0.5);
    return threads.submit(
        () -> {
          try (StreamRuns daily = (StreamRuns) bench.client.runs(DAILY)) {
            new Every(daily, pacing).run(body);
          }
          return null;
        });
  }

  private static FakeCall granting(Bench bench) throws InterruptedException {
    FakeCall call = bench.sidecar.next("subscribe");
    call.tell(STANDBY);
    call.tell(RUN);
    return call;
  }

  private void awaitCompletions(String... outcomes) throws InterruptedException {
    List<String> wanted = Stream.of(outcomes).map("complete_run 1 "::concat).toList();
    eventually("" + wanted, () -> sidecar.asked().size() >= wanted.size());
    assertEquals(wanted, sidecar.asked());
  }

  private static void sleep() throws InterruptedException {
    new CountDownLatch(1).await();
  }

  /** Is told to stop, and does. */
  private static void stop(Run run) throws InterruptedException {
    Thread.currentThread().interrupt();
    sleep();
  }

  @Test
  void t11WhatTheBodyDoesIsTheOutcomeAndTheNextOccurrenceFollows() throws Exception {
    List<RunBody> bodies =
        List.of(
            run -> {},
            run -> {
              throw new IOException("no disk");
            },
            run -> run.complete(Completion.failedFinal("no such table")),
            run -> {
              run.complete(Completion.returned());
              throw new IllegalStateException("after that");
            },
            // T8: work that was done though the run was lost is told.
            run -> expire());
    List<RunBody> left = Collections.synchronizedList(new ArrayList<>(bodies));
    every(this, run -> left.remove(0).run(run));
    FakeCall call = granting(this);
    String[] outcomes = {
      "SUCCEEDED",
      "FAILED java.io.IOException: no disk",
      "FAILED_FINAL no such table",
      "RETURNED",
      "SUCCEEDED"
    };
    for (int ended = 1; ended <= outcomes.length; ended++) {
      assertTrue(call.isOpen());
      awaitCompletions(Arrays.copyOf(outcomes, ended));
      call.tell("recorded: {}");
      call.tell(RUN);
    }
  }

  @Test
  void anErrorFailsTheRunAndEndsIt() throws Exception {
    AssertionError boom = new AssertionError("boom");
    Future<?> done =
        every(
            this,
            run -> {
              throw boom;
            });
    granting(this);
    assertSame(boom, failure(AssertionError.class, done));
    awaitCompletions("FAILED java.lang.AssertionError: boom");
  }

  @Test
  void s4ALossInterruptsTheBodyAndTheNextOccurrenceFollows() throws Exception {
    CountDownLatch working = new CountDownLatch(1);
    every(
        this,
        run -> {
          if (working.getCount() > 0) {
            working.countDown();
            sleep();
          }
        });
    FakeCall call = granting(this);
    await(working);
    call.tell("lost: {reason: MAX_HOLD_REACHED}");
    // Said nevertheless: until then, or on a new stream, its sidecar grants nothing here (T24).
    awaitCompletions("FAILED_FINAL stopped at its deadline");
    call = granting(this);
    assertTrue(((SubscribeScheduleRequest) call.request).getReconnected());
    awaitCompletions("FAILED_FINAL stopped at its deadline", "SUCCEEDED");
  }

  @Test
  void t11WhoIsToldToStopReturnsTheRun() throws Exception {
    Future<?> done = every(this, RunsTest::stop);
    FakeCall call = granting(this);
    failure(InterruptedException.class, done);
    awaitCompletions("RETURNED");
    call.awaitEnd();
    // Also who says so in its own way.
    done =
        every(
            this,
            run -> {
              Thread.currentThread().interrupt();
              throw new UncheckedIOException(new IOException("interrupted"));
            });
    granting(this);
    Throwable told = failure(InterruptedException.class, done);
    assertInstanceOf(UncheckedIOException.class, told.getCause());
    awaitCompletions("RETURNED", "RETURNED");
  }

  @Test
  void whoIsToldToStopWaitsForTheAnswerOnlyAsLongAsForARelease() throws Exception {
    try (Bench hasty = hasty()) {
      hasty.sidecar.on("complete_run", GONE);
      Future<?> done = every(hasty, RunsTest::stop);
      granting(hasty);
      failure(InterruptedException.class, done);
    }
  }

  @Test
  void aSidecarThatIsNotThereYetIsAskedAgainWithGrowingPauses() throws Exception {
    every(this, run -> {});
    for (int time = 0; time < 3; time++) {
      sidecar.next("subscribe").end(GONE);
    }
    granting(this);
    awaitCompletions("SUCCEEDED");
    assertEquals(List.of(550L, 1_050L, 2_050L), pauses);
  }

  @Test
  void aRefusalThatDoesNotPassOrAClosedClientEndsIt() throws Exception {
    Future<?> done = every(this, run -> {});
    sidecar.next("subscribe").end("code: UNIMPLEMENTED");
    assertEquals(Optional.of(Reason.UNSUPPORTED), failure(RefusedException.class, done).reason());
    done =
        threads.submit(
            () -> {
              client.every(DAILY, run -> {});
              return null;
            });
    sidecar.next("subscribe");
    client.close();
    assertEquals(Status.Code.CANCELLED, failure(RefusedException.class, done).code());
  }
}
