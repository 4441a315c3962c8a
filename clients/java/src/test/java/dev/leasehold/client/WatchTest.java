package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.v1.LockRecord;
import dev.leasehold.v1.LockState;
import dev.leasehold.v1.WatchLocksRequest;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** Locks as they are listed and followed, over breaks of the connection. */
class WatchTest extends Bench {
  private static final String A_HELD = "{lock_path: a, state: HELD}";
  private static final String A_AVAILABLE = "{lock_path: a, state: AVAILABLE}";
  private static final String B_HELD = "{lock_path: b, state: HELD}";
  private static final String C_HELD = "{lock_path: c, state: HELD}";

  private static LockRecord record(String path, LockState state) {
    return LockRecord.newBuilder().setLockPath(path).setState(state).build();
  }

  private static final LockRecord A = record("a", LockState.LOCK_STATE_HELD);
  private static final LockRecord FREE = record("a", LockState.LOCK_STATE_AVAILABLE);
  private static final LockRecord B = record("b", LockState.LOCK_STATE_HELD);

  private static List<LocksEvent> next(LocksWatch watch, int count) throws InterruptedException {
    List<LocksEvent> events = new ArrayList<>();
    for (int told = 0; told < count; told++) {
      events.add(watch.next().orElseThrow());
    }
    return events;
  }

  private FakeCall watched(String... events) throws InterruptedException {
    FakeCall call = sidecar.next("watch_locks");
    List.of(events).forEach(call::tell);
    return call;
  }

  @Test
  void eachDifferenceIsToldOnceAlsoAfterABreak() throws Exception {
    try (LocksWatch watch = client.watchLocks(WatchLocksRequest.getDefaultInstance())) {
      String allOfThem = "listed: {locks: 3}";
      FakeCall first =
          watched("changed: " + A_HELD, "changed: " + B_HELD, "changed: " + C_HELD, allOfThem);
      List.of("changed: " + A_HELD, "", "gone: x").forEach(first::tell);
      next(watch, 3);
      assertEquals(List.of(new LocksEvent.Listed(3)), next(watch, 1));
      first.end(FakeSidecar.GONE);
      // One that breaks before it has listed says nothing of those that it did not bring.
      watched("changed: " + A_AVAILABLE).end(FakeSidecar.GONE);
      FakeCall third =
          watched("changed: " + A_AVAILABLE, "changed: " + C_HELD, "listed: {locks: 2}");
      List<LocksEvent> news =
          List.of(new LocksEvent.Changed(FREE), new LocksEvent.Gone("b"), new LocksEvent.Listed(2));
      assertEquals(news, next(watch, 3));
      List.of("gone: c", "changed: " + B_HELD).forEach(third::tell);
      assertEquals(List.of(new LocksEvent.Gone("c"), new LocksEvent.Changed(B)), next(watch, 2));
      third.end("code: UNAVAILABLE, reason: STORE_UNAVAILABLE");
      assertThrows(RefusedException.class, watch::next, "not opened for an error of the store");
    }
  }

  @Test
  void aWatchThatHearsNothingIsOpenedAgainAndTellsNothingTwice() throws Exception {
    try (VectorsTest.Stage stage = new VectorsTest.Stage("ours");
        LockWatch watch = stage.client.watchLock(Locks.at("locks/p"))) {
      stage.pass(1);
      stage.stream(1).tell("record: " + A_HELD);
      stage.stream(1).tell("record: " + A_HELD);
      stage.pass(89_999);
      assertTrue(stage.stream(1).isOpen());
      stage.pass(91_000);
      assertFalse(stage.stream(1).isOpen());
      stage.stream(2).tell("record: " + A_HELD);
      stage.stream(2).tell("record: " + A_AVAILABLE);
      stage.settle();
      assertEquals(Optional.of(A), watch.next());
      assertEquals(Optional.of(FREE), watch.next());
    }
  }

  @Test
  void aWatchThatHasEndedStaysSo() throws Exception {
    try (LocksWatch watch = client.watchLocks(WatchLocksRequest.getDefaultInstance())) {
      watched().end("");
      assertEquals(Optional.empty(), watch.next());
      assertEquals(Optional.empty(), watch.next());
    }
    LockWatch watch = client.watchLock(Locks.at("locks/p"));
    watch.close();
    RefusedException closed = assertThrows(RefusedException.class, watch::next);
    assertEquals(Status.Code.CANCELLED, closed.code());
    assertThrows(RefusedException.class, watch::next);
  }
}
