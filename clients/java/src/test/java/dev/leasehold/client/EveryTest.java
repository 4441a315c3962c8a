package dev.leasehold.client;

import static dev.leasehold.client.FakeSidecar.GONE;
import static dev.leasehold.client.FakeSidecar.RUN;
import static dev.leasehold.client.FakeSidecar.STANDBY;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.internal.connect.Pacing;
import dev.leasehold.client.internal.runs.Every;
import dev.leasehold.client.internal.runs.StreamRuns;
import dev.leasehold.v1.SubscribeScheduleRequest;
import io.grpc.Status;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;

/** Running something on each occurrence. */
class EveryTest extends BenchTest {
  private static final ScheduleSpec NIGHTLY = ScheduleSpec.of("nightly").cron("@daily");

  private final List<Duration> pauses = Collections.synchronizedList(new ArrayList<>());
  private final CompletableFuture<Thread> inside = new CompletableFuture<>();

  /** Runs it without real pauses. */
  private Future<?> every(Bench bench, RunBody body) {
    return threads.submit(
        () -> {
          try (StreamRuns runs = (StreamRuns) bench.client.runs(NIGHTLY)) {
            new Every(runs, new Pacing(pauses::add, () -> 0.5)).run(body);
          }
          return null;
        });
  }

  private static FakeCall granting(Bench bench) throws InterruptedException {
    FakeCall call = bench.sidecar.subscription();
    call.tell(STANDBY);
    call.tell(RUN);
    return call;
  }

  private void awaitCompletions(List<String> outcomes) throws InterruptedException {
    Bench.eventually("" + outcomes, () -> sidecar.asked().size() >= outcomes.size());
    assertEquals(outcomes.stream().map("complete_run 1 "::concat).toList(), sidecar.asked());
  }

  private void sleep() throws InterruptedException {
    inside.complete(Thread.currentThread());
    new CountDownLatch(1).await();
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
            run -> bench.clock.advance(58));
    List<RunBody> left = Collections.synchronizedList(new ArrayList<>(bodies));
    every(bench, run -> left.remove(0).run(run));
    FakeCall call = granting(bench);
    List<String> outcomes =
        List.of(
            "SUCCEEDED",
            "FAILED java.io.IOException: no disk",
            "FAILED_FINAL no such table",
            "RETURNED",
            "SUCCEEDED");
    for (int ended = 1; ended <= outcomes.size(); ended++) {
      assertTrue(call.isOpen());
      awaitCompletions(outcomes.subList(0, ended));
      call.tell("recorded: {}");
      call.tell(RUN);
    }
  }

  @Test
  void anErrorFailsTheRunAndEndsIt() throws Exception {
    AssertionError boom = new AssertionError("boom");
    Future<?> done =
        every(
            bench,
            run -> {
              throw boom;
            });
    granting(bench);
    assertSame(boom, failure(done));
    awaitCompletions(List.of("FAILED java.lang.AssertionError: boom"));
  }

  @Test
  void s4ALossInterruptsTheBodyAndTheNextOccurrenceFollows() throws Exception {
    String stopped = "FAILED_FINAL stopped at its deadline";
    every(
        bench,
        run -> {
          if (!inside.isDone()) {
            sleep();
          }
        });
    FakeCall call = granting(bench);
    soon(inside);
    call.tell("lost: {reason: MAX_HOLD_REACHED}");
    // Said nevertheless: until then, or on a new stream, its sidecar grants nothing here (T24).
    awaitCompletions(List.of(stopped));
    call = granting(bench);
    assertTrue(((SubscribeScheduleRequest) call.request).getReconnected());
    awaitCompletions(List.of(stopped, "SUCCEEDED"));
  }

  @Test
  void t11WhoIsToldToStopReturnsTheRun() throws Exception {
    Future<?> done = every(bench, run -> sleep());
    FakeCall call = granting(bench);
    soon(inside).interrupt();
    assertInstanceOf(InterruptedException.class, failure(done));
    awaitCompletions(List.of("RETURNED"));
    call.awaitEnd();
  }

  @Test
  void t11WhoIsToldToStopAndSaysSoInItsOwnWayReturnsTheRun() throws Exception {
    Future<?> done =
        every(
            bench,
            run -> {
              Thread.currentThread().interrupt();
              throw new UncheckedIOException(new IOException("interrupted"));
            });
    granting(bench);
    Throwable told = failure(InterruptedException.class, done);
    assertInstanceOf(UncheckedIOException.class, told.getCause());
    awaitCompletions(List.of("RETURNED"));
  }

  @Test
  void whoIsToldToStopWaitsForTheAnswerOnlyAsLongAsForARelease() throws Exception {
    try (Bench hasty = Bench.hasty()) {
      hasty.sidecar.on("complete_run", GONE);
      Future<?> done = every(hasty, run -> sleep());
      granting(hasty);
      soon(inside).interrupt();
      failure(InterruptedException.class, done);
    }
  }

  @Test
  void aSidecarThatIsNotThereYetIsAskedAgainWithGrowingPauses() throws Exception {
    every(bench, run -> {});
    for (int time = 0; time < 3; time++) {
      sidecar.subscription().end(GONE);
    }
    granting(bench);
    awaitCompletions(List.of("SUCCEEDED"));
    assertEquals(List.of(550L, 1_050L, 2_050L), pauses.stream().map(Duration::toMillis).toList());
  }

  @Test
  void aRefusalThatDoesNotPassOrAClosedClientEndsIt() throws Exception {
    Future<?> done = every(bench, run -> {});
    sidecar.subscription().end("code: UNIMPLEMENTED");
    assertEquals(Optional.of(Reason.UNSUPPORTED), failure(RefusedException.class, done).reason());
    done =
        threads.submit(
            () -> {
              client.every(NIGHTLY, run -> {});
              return null;
            });
    sidecar.subscription();
    client.close();
    assertEquals(Status.Code.CANCELLED, failure(RefusedException.class, done).code());
  }
}
