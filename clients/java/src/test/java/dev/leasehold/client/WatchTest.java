package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.leasehold.v1.ListLocksRequest;
import dev.leasehold.v1.LockRecord;
import dev.leasehold.v1.LockState;
import dev.leasehold.v1.WatchLocksRequest;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;

/** Locks as they are listed and followed, over breaks of the connection. */
class WatchTest extends BenchTest {
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
  void allPagesAreListedWithTheFilter() throws Exception {
    ListLocksRequest filter = ListLocksRequest.newBuilder().putLabels("team", "red").build();
    List<ListLocksRequest> sent = new CopyOnWriteArrayList<>();
    sidecar.on(
        "list_locks",
        request -> {
          sent.add((ListLocksRequest) request);
          return switch (((ListLocksRequest) request).getPageToken()) {
            case "" -> "records: [" + A_HELD + "], next_page_token: '2'";
            case "2" -> "next_page_token: '3'";
            default -> "records: [" + B_HELD + "]";
          };
        });
    assertEquals(List.of(A, B), client.listLocks(filter));
    assertEquals(filter.toBuilder().setPageToken("3").build(), sent.get(2));
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
    try (Bench impatient = Bench.impatient();
        LockWatch watch = impatient.client.watchLock(Locks.at("locks/p"))) {
      FakeCall call = impatient.sidecar.next("watch_lock");
      call.tell("record: " + A_HELD);
      call.tell("record: " + A_HELD);
      assertEquals(A, watch.next().orElseThrow());
      Future<Optional<LockRecord>> next = threads.submit(watch::next);
      // On a busy machine the first word may come too late, again.
      while (!next.isDone()) {
        call = impatient.sidecar.next("watch_lock");
        call.tell("record: " + A_HELD);
        call.tell("record: " + A_AVAILABLE);
        Bench.eventually(
            "it is opened again, or has it",
            () -> next.isDone() || impatient.sidecar.hasUnseenCalls());
      }
      assertEquals(Optional.of(FREE), soon(next));
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
