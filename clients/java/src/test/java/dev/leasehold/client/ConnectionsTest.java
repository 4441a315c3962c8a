package dev.leasehold.client;

import static dev.leasehold.client.Bench.eventually;
import static dev.leasehold.client.FakeSidecar.GONE;
import static dev.leasehold.client.FakeSidecar.GRANTED;
import static dev.leasehold.client.FakeSidecar.RUN;
import static dev.leasehold.client.FakeSidecar.TOO_OLD;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.Bench.Held;
import dev.leasehold.v1.ReleaseOutcome;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Which connection a call goes over. */
class ConnectionsTest extends BenchTest {
  @Test
  void s13AReleaseDoesNotStandInLineBehindHolds() throws Exception {
    try (Bench full = new Bench(2)) {
      Held first = full.held();
      Held second = full.held();
      CompletableFuture<Hold> third = full.ask();
      full.sidecar.on("report_progress", "until: 60000, for: 60000");
      soon(
          threads.submit(
              () -> {
                first.hold().reportProgress();
                return null;
              }));
      assertEquals(
          ReleaseOutcome.RELEASE_OUTCOME_RELEASED, soon(first.hold().releaseAsync()).getOutcome());
      full.sidecar.hold().tell(GRANTED);
      assertTrue(soon(third).isValid());
      assertTrue(second.hold().isValid());
    }
  }

  @Test
  void s13AReleaseDoesNotStandInLineBehindWaits() throws Exception {
    CountDownLatch waiting = new CountDownLatch(2);
    CountDownLatch over = new CountDownLatch(1);
    try (Bench full = new Bench(1)) {
      full.sidecar.on(
          "acquire_lease",
          request -> {
            waiting.countDown();
            Bench.await(over);
            return GRANTED;
          });
      Callable<Grant> acquire = () -> full.client.acquire(SPEC.waitWithoutEnd());
      Future<Grant> acquired = threads.submit(acquire);
      threads.submit(acquire);
      Bench.await(waiting);
      Future<ReleaseOutcome> released =
          threads.submit(
              () -> {
                full.client.listLocks();
                return full.client.release("lease-1").getOutcome();
              });
      assertEquals(ReleaseOutcome.RELEASE_OUTCOME_RELEASED, soon(released));
      over.countDown();
      assertEquals("lease-1", soon(acquired).leaseId());
    }
  }

  /** The sidecar in the place of the bench's, which was too old for a hold (S37), and that hold. */
  private record Elsewhere(FakeSidecar newer, Hold hold) {}

  private Elsewhere elsewhere() throws Exception {
    FakeSidecar newer = sidecar.replacement();
    CompletableFuture<Hold> asked = ask(SPEC.waitUpTo(Duration.ofMinutes(1)));
    sidecar.hold().end(TOO_OLD);
    newer.hold().tell(GRANTED);
    return new Elsewhere(newer, soon(asked));
  }

  /** What becomes of a hold whose sidecar takes no more streams. */
  private enum End {
    LOST,
    RELEASED,
    RELEASED_IN_VAIN,
    RESUMED_ELSEWHERE,
    DROPPED_WHEN_LOST,
    DROPPED_WHEN_RESUMED
  }

  @ParameterizedTest
  @EnumSource
  void s37AHoldKeepsItsPlaceUntilItsEndIsKnown(End end) throws Exception {
    List<Held> kept = new ArrayList<>();
    try (FakeSidecar newer = ended(kept, end)) {
      eventually(
          "the older one's connection is closed",
          () -> {
            System.gc();
            return sidecar.connections() == 0;
          });
      for (Held held : kept) {
        assertEquals(end == End.RESUMED_ELSEWHERE, held.hold().isValid());
        if (held.hold().isValid()) {
          held.hold().close();
        }
      }
      List<String> release = List.of("release 1");
      boolean isTold = Set.of(End.LOST, End.RELEASED, End.RELEASED_IN_VAIN).contains(end);
      assertEquals(isTold ? release : List.of(), sidecar.asked());
      assertEquals(end == End.RESUMED_ELSEWHERE ? release : List.of(), newer.asked());
    }
  }

  /** Ends a hold, which is {@code kept}, unless it is dropped. */
  private FakeSidecar ended(List<Held> kept, End end) throws Exception {
    Held held = bench.held();
    FakeSidecar newer = elsewhere().newer;
    switch (end) {
      case LOST -> {
        held.call().tell("lost: {reason: TAKEN}");
        held.call().awaitEnd();
        assertThrows(LostException.class, held.hold()::close);
      }
      case RELEASED -> held.hold().close();
      case RELEASED_IN_VAIN -> {
        sidecar.on("release", GONE);
        assertThrows(RefusedException.class, held.hold()::close);
      }
      case DROPPED_WHEN_LOST -> {
        held.call().tell("lost: {reason: TAKEN}");
        soon(held.hold().lost());
      }
      case RESUMED_ELSEWHERE, DROPPED_WHEN_RESUMED -> {
        held.call().end(GONE);
        newer.hold().tell(GRANTED);
        bench.next(HoldEvent.Interrupted.class);
        bench.next(HoldEvent.Resumed.class);
      }
    }
    if (!end.name().startsWith("DROPPED")) {
      kept.add(held);
    }
    return newer;
  }

  private record Running(Runs runs, Run run, FakeCall call) {}

  private Running running() throws Exception {
    Runs runs = client.runs(ScheduleSpec.of("f").cron("@daily"));
    Future<Run> asked = threads.submit(runs::next);
    FakeCall call = sidecar.subscription();
    call.tell(RUN);
    return new Running(runs, soon(asked), call);
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void s37WhatCameFromASidecarThatRefusesAnotherHoldStaysThere(boolean called) throws Exception {
    sidecar.on("report_progress", "until: 58000, for: 58000");
    Running running = running();
    Hold kept = bench.held().hold();
    if (called) {
      client.acquire(SPEC);
    }
    Elsewhere elsewhere = elsewhere();
    try (FakeSidecar newer = elsewhere.newer) {
      kept.reportProgress();
      kept.save("x");
      kept.release();
      elsewhere.hold.release();
      running.run.complete(Completion.succeeded());
      List<String> wanted =
          new ArrayList<>(
              List.of(
                  "report_progress 1",
                  "save_checkpoint 1 x",
                  "release 1",
                  "complete_run 1 SUCCEEDED"));
      if (called) {
        client.release("lease-1");
        wanted.add("release 0");
      }
      assertEquals(wanted, sidecar.asked());
      assertEquals(List.of("release 1"), newer.asked());
      running.runs.close();
      int left = called ? 1 : 0;
      eventually("what is not needed is closed", () -> sidecar.connections() == left);
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void s37ALostRunKeepsItsPlaceUntilItIsCompletedOrClosed(boolean completed) throws Exception {
    Running lost = running();
    try (FakeSidecar newer = elsewhere().newer) {
      lost.call.tell("lost: {reason: NO_PROGRESS}");
      soon(lost.run.lost());
      lost.call.awaitEnd();
      if (completed) {
        // One that fails may be repeated.
        sidecar.on("complete_run", "code: INVALID_ARGUMENT, reason: INVALID_FIELD");
        assertRefused(Reason.INVALID_FIELD, () -> lost.run.complete(Completion.returned()));
        sidecar.on("complete_run", "result: RECORDED");
        client.listLocks();
        lost.run.complete(Completion.succeeded());
      }
      lost.run.close();
      assertEquals(
          completed ? List.of("complete_run 1 RETURNED", "complete_run 1 SUCCEEDED") : List.of(),
          sidecar.asked());
      assertEquals(List.of(), newer.asked());
      eventually("what is not needed is closed", () -> sidecar.connections() == 0);
    }
  }

  @Test
  void aClosedClientHasNoConnectionLeft() throws Exception {
    bench.held().hold().close();
    assertEquals(1, sidecar.connections());
    client.release("lease-2");
    assertEquals(2, sidecar.connections());
    client.close();
    eventually("both are closed", () -> sidecar.connections() == 0);
  }
}
