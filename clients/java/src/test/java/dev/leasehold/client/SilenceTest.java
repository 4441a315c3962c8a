package dev.leasehold.client;

import static dev.leasehold.client.Bench.eventually;
import static dev.leasehold.client.Bench.soon;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.Bench.Held;
import dev.leasehold.client.FakeSidecar.HoldCall;
import dev.leasehold.v1.Busy;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.LockRecord;
import dev.leasehold.v1.WatchLockResponse;
import io.grpc.Status;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Streams that go silent or break, and who reads them. */
@Timeout(60)
class SilenceTest {
  private static HoldLeaseResponse waiting() {
    return Messages.waiting();
  }

  private static LockRecord record(String holder) {
    return LockRecord.newBuilder().setHolder(holder).build();
  }

  private static WatchLockResponse watched(String holder) {
    return WatchLockResponse.newBuilder().setRecord(record(holder)).build();
  }

  private static CompletableFuture<Hold> waitFor(Bench bench, Duration wait) {
    return bench.client.holdAsync(LeaseSpec.of("f").waitUpTo(wait), event -> {});
  }

  /** Grants it, and gives the call. On a busy machine the first answer may come too late. */
  private static HoldCall grant(Bench bench, CompletableFuture<Hold> asked) throws Exception {
    HoldCall call = null;
    while (!asked.isDone()) {
      call = bench.sidecar.hold();
      call.tell(waiting());
      call.tell(Messages.granted(Messages.grantHere()));
      eventually("it asks, or has it", () -> asked.isDone() || bench.sidecar.isAskedToHold());
    }
    return call;
  }

  @Test
  void aWaiterThatHearsNothingAsksAgain() throws Exception {
    try (Bench bench = Bench.impatient()) {
      CompletableFuture<Hold> asked = waitFor(bench, Duration.ofSeconds(30));
      HoldCall silent = bench.sidecar.hold();
      silent.tell(waiting());
      silent.awaitEnd();
      grant(bench, asked);
      assertTrue(soon(asked).isValid());
    }
  }

  @Test
  void aSingleTryThatHearsNothingFails() throws Exception {
    try (Bench bench = Bench.impatient()) {
      CompletableFuture<Hold> asked = bench.ask();
      bench.sidecar.hold();
      ExecutionException error = assertThrows(ExecutionException.class, () -> soon(asked));
      RefusedException refused = assertInstanceOf(RefusedException.class, error.getCause());
      assertEquals(Status.Code.UNAVAILABLE, refused.code());
    }
  }

  @Test
  void s16AHolderThatHearsNothingResumesBeforeItLeavesTheSilentStream() throws Exception {
    try (Bench bench = Bench.impatient()) {
      CompletableFuture<Hold> asked = waitFor(bench, Duration.ofSeconds(30));
      HoldCall silent = grant(bench, asked);
      HoldCall resume = bench.sidecar.hold();
      assertEquals("resume-1", resume.request.getResume().getResumeToken());
      assertTrue(silent.isOpen(), "S14: its end would be the end of the hold");
      resume.tell(Messages.granted(Messages.grantHere().toBuilder().setGeneration(2).build()));
      silent.awaitEnd();
      assertTrue(soon(asked).isValid());
    }
  }

  @Test
  void s12AWaiterWhoseConnectionBreaksAsksAgainForTheRestOfItsWait() throws Exception {
    try (Bench bench = new Bench()) {
      CompletableFuture<Hold> asked = waitFor(bench, Duration.ofSeconds(30));
      HoldCall call = bench.sidecar.hold();
      call.tell(waiting());
      bench.clock.advance(10);
      call.fail(Messages.unavailable());
      HoldCall again = bench.sidecar.hold();
      assertEquals(20, again.request.getSpec().getWait().getSeconds());
      bench.clock.advance(20);
      again.fail(Messages.unavailable());
      assertThrows(ExecutionException.class, () -> soon(asked), "the wait is over");
    }
  }

  @Test
  void aCallerBetweenTwoRoundsOfWaitingIsToldThatTheClientWasClosed() throws Exception {
    try (Bench bench = new Bench()) {
      CompletableFuture<Hold> asked =
          bench.client.holdAsync(LeaseSpec.of("f").waitWithoutEnd(), event -> {});
      HoldCall call = bench.sidecar.hold();
      Busy later = Busy.newBuilder().setRetryAfter(Durations.toWire(Duration.ofHours(1))).build();
      call.tell(HoldLeaseResponse.newBuilder().setBusy(later).build());
      call.awaitEnd();
      bench.client.close();
      ExecutionException error = assertThrows(ExecutionException.class, () -> soon(asked));
      assertInstanceOf(RefusedException.class, error.getCause());
    }
  }

  @Test
  void s16AReleaseThatWaitsForAResumeEndsWithTheClient() throws Exception {
    try (Bench bench = new Bench()) {
      Held held = bench.held();
      held.call().fail(Messages.unavailable());
      bench.sidecar.hold();
      var releasing = held.hold().releaseAsync();
      bench.client.close();
      ExecutionException error = assertThrows(ExecutionException.class, () -> soon(releasing));
      assertInstanceOf(ReleaseUnconfirmedException.class, error.getCause());
    }
  }

  @Test
  void aWatchThatHearsNothingIsOpenedAgainAndTellsNothingTwice() throws Exception {
    try (Bench bench = Bench.impatient()) {
      bench.sidecar.endsWatches = false;
      bench.sidecar.records = List.of(watched("a"), watched("a"));
      try (LockWatch watch = bench.client.watchLock(Locks.at("locks/p"))) {
        assertEquals(record("a"), watch.next().orElseThrow());
        bench.sidecar.watches.take();
        bench.sidecar.records = List.of(watched("a"), watched("b"));
        assertEquals(record("b"), watch.next().orElseThrow());
      }
    }
  }

  @Test
  void aWatchWhoseConnectionBreaksIsOpenedAgain() throws Exception {
    try (Bench bench = new Bench()) {
      bench.sidecar.endsWatches = false;
      bench.sidecar.records = List.of(watched("a"));
      try (LockWatch watch = bench.client.watchLock(Locks.at("locks/p"))) {
        assertEquals(record("a"), watch.next().orElseThrow());
        bench.sidecar.records = List.of(watched("b"));
        bench.sidecar.kill();
        bench.sidecar.start();
        assertEquals(Optional.of(record("b")), watch.next());
      }
    }
  }

  @Test
  void aWatchIsNotOpenedForAnErrorOfTheStore() throws Exception {
    try (Bench bench = new Bench()) {
      bench.sidecar.endsWatches = false;
      bench.sidecar.records = List.of(watched("a"));
      try (LockWatch watch = bench.client.watchLock(Locks.at("locks/p"))) {
        assertEquals(record("a"), watch.next().orElseThrow());
        var call = bench.sidecar.watches.poll(FakeSidecar.PATIENCE_SECONDS, TimeUnit.SECONDS);
        call.onError(
            Messages.error(
                Status.Code.UNAVAILABLE, "no store", "STORE_UNAVAILABLE", java.util.Map.of()));
        assertThrows(RefusedException.class, watch::next);
      }
    }
  }

  @Test
  void aClosedWatchEndsAndStaysClosed() throws Exception {
    try (Bench bench = new Bench()) {
      bench.sidecar.endsWatches = false;
      LockWatch watch = bench.client.watchLock(Locks.at("locks/p"));
      bench.sidecar.watches.poll(FakeSidecar.PATIENCE_SECONDS, TimeUnit.SECONDS);
      assertFalse(Thread.interrupted());
      watch.close();
      assertThrows(RefusedException.class, watch::next);
    }
  }
}
