package dev.leasehold.client;

import static dev.leasehold.client.FakeSidecar.GONE;
import static dev.leasehold.client.FakeSidecar.GRANTED;
import static dev.leasehold.client.FakeSidecar.RUN;
import static dev.leasehold.client.FakeSidecar.TOO_OLD;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

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
class ConnectionsTest extends Bench {
  @Test
  void s13AReleaseDoesNotStandInLineBehindHolds() throws Exception {
    try (Bench full = new Bench(3, builder -> builder.streamsPerConnection(2))) {
      Held first = full.held();
      Held second = full.held();
      CompletableFuture<Hold> third = full.ask(SPEC);
      full.sidecar.on("report_progress", "until: 60000, for: 60000");
      first.hold().reportProgress();
      first.hold().release();
      full.sidecar.next("hold").tell(GRANTED);
      assertTrue(soon(third).isValid());
      assertTrue(second.hold().isValid());
    }
  }

  @Test
  void s13AReleaseDoesNotStandInLineBehindWaits() throws Exception {
    CountDownLatch waiting = new CountDownLatch(2);
    CountDownLatch over = new CountDownLatch(1);
    try (Bench full = new Bench(2, builder -> builder.streamsPerConnection(1))) {
      full.sidecar.on(
          "acquire_lease",
          request -> {
            waiting.countDown();
            await(over);
            return GRANTED;
          });
      Callable<Grant> acquire = () -> full.client.acquire(SPEC.waitWithoutEnd());
      Future<Grant> acquired = threads.submit(acquire);
      threads.submit(acquire);
      await(waiting);
      full.client.listLocks();
      full.client.release("lease-1");
      over.countDown();
      assertEquals("lease-1", soon(acquired).leaseId());
    }
  }

  /** The calls about holds and runs, with the connection of each. */
  private List<String> asked() {
    return sidecar.calls().stream()
        .filter(call -> sidecar.asked().contains(call.sent))
        .map(call -> call.sent + " by " + call.connection)
        .toList();
  }

  /** A hold of another sidecar: the one that is met first is too old for it (S37). */
  private Hold elsewhere() throws Exception {
    LeaseSpec waits = SPEC.waitUpTo(Duration.ofMinutes(1));
    CompletableFuture<Hold> asked = client.holdAsync(waits, event -> {});
    sidecar.next("hold").end(TOO_OLD);
    grant();
    return soon(asked);
  }

  private void awaitClosed(int connection) throws InterruptedException {
    eventually(
        "what is not needed is closed",
        () -> {
          System.gc();
          return !sidecar.connections().contains(connection);
        });
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
    List<Hold> kept = new ArrayList<>();
    end(end, kept);
    awaitClosed(1);
    boolean isTold = Set.of(End.LOST, End.RELEASED, End.RELEASED_IN_VAIN).contains(end);
    assertEquals(isTold ? List.of("release 1 by 1") : List.of(), asked());
    if (end == End.RESUMED_ELSEWHERE) {
      kept.get(0).close();
      assertEquals(List.of("release 1 by 2"), asked());
    }
  }

  /** Ends a hold, which is {@code kept}, unless it is dropped. */
  private void end(End end, List<Hold> kept) throws Exception {
    Held held = held();
    elsewhere();
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
        grant();
        next(HoldEvent.Interrupted.class);
        next(HoldEvent.Resumed.class);
      }
    }
    if (!end.name().startsWith("DROPPED")) {
      kept.add(held.hold());
    }
  }

  private record Running(Runs runs, Run run, FakeCall call) {}

  private Running running() throws Exception {
    Runs runs = client.runs(ScheduleSpec.of("f").cron("@daily"));
    Future<Run> asked = threads.submit(runs::next);
    FakeCall call = sidecar.next("subscribe");
    call.tell(RUN);
    return new Running(runs, soon(asked), call);
  }

  @Test
  void s37WhatCameFromASidecarThatRefusesAnotherHoldStaysThere() throws Exception {
    Running running = running();
    Hold kept = held().hold();
    client.acquire(SPEC);
    Hold elsewhere = elsewhere();
    sidecar.on("report_progress", "until: 58000, for: 58000");
    kept.reportProgress();
    kept.save("x");
    kept.release();
    elsewhere.release();
    running.run.complete(Completion.succeeded());
    client.release("lease-1");
    assertEquals(
        List.of(
            "report_progress 1 by 1",
            "save_checkpoint 1 x by 1",
            "release 1 by 1",
            "release 1 by 3",
            "complete_run 1 SUCCEEDED by 1",
            "release 0 by 2"),
        asked());
    running.runs.close();
    awaitClosed(1);
    assertEquals(Set.of(2, 3), sidecar.connections());
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void s37ALostRunKeepsItsPlaceUntilItIsCompletedOrClosed(boolean completed) throws Exception {
    Running lost = running();
    elsewhere();
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
    List<String> told = List.of("complete_run 1 RETURNED by 1", "complete_run 1 SUCCEEDED by 1");
    assertEquals(completed ? told : List.of(), asked());
    awaitClosed(1);
  }

  @Test
  void aClosedClientHasNoConnectionLeft() throws Exception {
    held().hold().close();
    assertEquals(Set.of(1), sidecar.connections());
    client.release("lease-2");
    assertEquals(Set.of(1, 2), sidecar.connections());
    client.close();
    eventually("both are closed", () -> sidecar.connections().isEmpty());
  }
}
